import { PassThrough } from 'node:stream'
import { describe, expect, it } from '@jest/globals'
import { openProgress } from './progress.ts'
import { safeJson } from './safe-text.ts'
import { tableLines } from './table.ts'
import { openTerminal, type OutputStream } from './terminal.ts'

const columns = [
  { title: 'name', isFlexible: true as const },
  { title: 'count', isNumber: true as const },
]
const rows = [
  ['a rather long name of a group', '1,234'],
  ['b\u001b[2J', '5'],
]

describe('a table', () => {
  it('is as wide as its cells where nothing may be cut, and shows control characters', () => {
    expect(tableLines(columns, rows, Infinity)).toEqual([
      'name                           count',
      'a rather long name of a group  1,234',
      'b\\u001b[2J                         5',
    ])
  })

  it('cuts flexible columns in a narrow terminal, and no number', () => {
    expect(tableLines(columns, rows, 20)).toEqual([
      'name           count',
      'a rather lon…  1,234',
      'b\\u001b[2J         5',
    ])
    expect(tableLines(columns, rows, 5)[1]).toBe('a rathe…  1,234')
  })
})

describe('progress', () => {
  function streams(isTTY: boolean, columns: number): { terminal: ReturnType<typeof openTerminal>; text: () => string } {
    const err: OutputStream = Object.assign(new PassThrough(), { isTTY, columns })
    let text = ''
    err.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8')
    })
    return { terminal: openTerminal(new PassThrough(), err), text: () => text }
  }

  it('is a bar on a terminal, which notes do not tear and the end removes', () => {
    const { terminal, text } = streams(true, 80)
    const progress = openProgress(terminal)
    progress.update(1, 2, 'Uploading 1 of 2')
    terminal.note('Line 3: is wrong')
    progress.end()
    const bar = '████████████░░░░░░░░░░░░  50 %  Uploading 1 of 2'
    const clear = '\r\u001b[2K'
    expect(text()).toBe(`${clear}${bar}${clear}Line 3: is wrong\n${bar}${clear}`)
  })

  it('fits into a narrow terminal', () => {
    const { terminal, text } = streams(true, 30)
    openProgress(terminal).update(1, 2, 'Uploading 100 bytes of 200 bytes')
    expect(Array.from(text().replace('\r\u001b[2K', ''))).toHaveLength(29)
  })

  it('is a line for each stage and every five seconds where there is no terminal', () => {
    const { terminal, text } = streams(false, 80)
    let now = 0
    const progress = openProgress(terminal, () => now)
    progress.update(0, 0, 'Converting the file')
    for (; now < 12_000; now += 1_000) progress.update(now, 12_000, `Storing ${now} of 12000`)
    progress.end()
    expect(text()).toBe(
      'Converting the file…\nStoring 0 of 12000 (0 %)\nStoring 5000 of 12000 (41 %)\nStoring 10000 of 12000 (83 %)\n',
    )
  })
})

it('a terminal that does not know its size, and so reports 0 columns, has 80', () => {
  const stream = (): OutputStream => Object.assign(new PassThrough(), { isTTY: true, columns: 0 })
  const { width, statusWidth } = openTerminal(stream(), stream())
  expect([width, statusWidth]).toEqual([80, 80])
})

it('JSON for a terminal is the same JSON without control characters', () => {
  const value = { 'a\u009b': ['\u001b[31m', 'line\nline', '\u202e'] }
  // eslint-disable-next-line no-control-regex -- These characters are what the test looks for.
  expect(safeJson(value)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/)
  expect(JSON.parse(safeJson(value, 2))).toEqual(value)
})
