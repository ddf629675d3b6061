import { spawnSync } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { allOf, chunksOf, streamOf } from '../../tests/support/chunks.ts'
import { splitFields } from './csv-fields.ts'
import type { FileRecord } from './file-record.ts'
import { splitRecords } from './record-splitter.ts'

async function recordsOf(file: Buffer, sizes: readonly number[]): Promise<FileRecord[]> {
  const { records } = await splitRecords(streamOf(...chunksOf(file, sizes)), 1)
  return (await allOf(records)).flat()
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })
const delimiter = fc.constantFrom(',', ';', '\t')
const cell = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: fc.constantFrom('"', '\n', '\r', ',', ';', '\t', ' ', 'a', 'é', '😀') }) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme' }) },
  { weight: 1, arbitrary: fc.constantFrom(null, '\\N', '\\N ') },
)
const row = fc.array(cell, { minLength: 2, maxLength: 5 })

/** A cell of a table, and whether it is written in quotes although it needs none. */
const table = fc.record({
  delimiter,
  lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
  rows: fc.array(row, { minLength: 1, maxLength: 8 }),
  isQuoted: fc.infiniteStream(fc.boolean()),
  endsLine: fc.boolean(),
})

/** Databases write NULL without quotes, and the text `\N` in quotes. */
function cellText(text: string | null, isQuoted: boolean): string {
  if (text === null) return '\\N'
  return isQuoted || text === '\\N' || /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

type Table = typeof table extends fc.Arbitrary<infer Value> ? Value : never

/** The table with a header, and the header's delimiter more often than the others. */
function fileOf({ delimiter, lineEnd, rows, isQuoted, endsLine }: Table): Buffer {
  const lines = [
    ['a', 'b', 'c'].join(delimiter),
    ...rows.map((cells) => cells.map((text) => cellText(text, isQuoted.next().value === true)).join(delimiter)),
  ]
  return Buffer.from(lines.join(lineEnd) + (endsLine ? lineEnd : ''))
}

const withoutNulls = (rows: Table['rows']): string[][] => rows.map((cells) => cells.map((text) => text ?? ''))

function fieldsOf(records: readonly FileRecord[], delimiter: string): unknown[] {
  return records.map(({ bytes, error }) => (bytes === undefined ? error : splitFields(bytes.toString(), delimiter)))
}

describe('the fields of well-formed CSV', () => {
  test('are those that were written, and those that csv-parse reads', async () => {
    await fc.assert(
      fc.asyncProperty(table, sizes, async (value, sizes) => {
        const file = fileOf(value)
        const fields = fieldsOf(await recordsOf(file, sizes), value.delimiter)
        expect(fields).toEqual(withoutNulls(value.rows))
        const { delimiter, lineEnd } = value
        const options = { delimiter, record_delimiter: lineEnd, relax_column_count: true, skip_empty_lines: true }
        const cast = (text: string, { quoting }: { quoting: boolean }) => (text === '\\N' && !quoting ? '' : text)
        expect(fields).toEqual(parse(file, { ...options, cast }).slice(1))
      }),
      { numRuns: 1_000 },
    )
  })

  const hasPython = spawnSync('python3', ['--version']).status === 0
  ;(hasPython ? test : test.skip)('are those that the module csv of Python reads (needs python3)', async () => {
    // The module does not tell NULL from the text `\N`.
    const tables = fc.sample(table, 400).map((each) => ({ ...each, rows: withoutNulls(each.rows) }))
    const program = `
import csv, io, json, sys
for line in sys.stdin:
    delimiter, text = json.loads(line)
    rows = csv.reader(io.StringIO(text, newline=''), delimiter=delimiter)
    print(json.dumps([row for row in rows if row][1:]))
`
    const files = tables.map(fileOf)
    const input = tables.map(({ delimiter }, n) => JSON.stringify([delimiter, files[n]?.toString()])).join('\n')
    const { stdout } = spawnSync('python3', ['-c', program], { input, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    const expected = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
    expect(expected).toHaveLength(tables.length)
    for (const [n, { delimiter }] of tables.entries()) {
      expect(fieldsOf(await recordsOf(files[n] ?? Buffer.alloc(0), [64]), delimiter)).toEqual(expected[n])
    }
  })
})

/** Any text, with many characters that are special in CSV or JSON. */
const anyText = fc.string({
  unit: fc.constantFrom('"', '""', '\n', '\r', '\r\n', ',', 'a', '{', '}', '[', ']', '\\', ' ', ':', 'é', '\0'),
  maxLength: 60,
})

test.each(['a,b\n', '{"a":1}\n', '[{"a":1},'])(
  'the same records are found whatever the chunks, after %j',
  async (start) => {
    await fc.assert(
      fc.asyncProperty(anyText, sizes, async (text, sizes) => {
        const file = Buffer.from(start + text)
        const found = await recordsOf(file, sizes)
        expect(found).toEqual(await recordsOf(file, [file.length]))
        // No line is after the last one of the file, and the lines are in ascending order.
        const lines = found.map(({ line }) => line)
        expect(lines).toEqual(lines.toSorted((a, b) => a - b))
        expect(lines.at(-1) ?? 1).toBeLessThanOrEqual(file.toString().split(/\r\n|\r|\n/).length)
      }),
      { numRuns: 1_000 },
    )
  },
)

/** Good rows contain no line ends, so the line of the n-th good row is known. */
const goodRow = fc.tuple(fc.constantFrom('x', '"x"', '"x ""y"""', '"{""a"":1}"'), fc.constantFrom('y', '"y"', '"y,z"'))
const badRow = fc.oneof(
  fc.constantFrom('x,"y', '"x,y', '"x"y,z', '"x" ,y', '""x,"', 'x,"y"z"', '"x,"y"', '"', '"x""', 'x,"""'),
  // Bytes that are no UTF-8, and NUL: such records are found, and fail when they are parsed.
  fc.constantFrom('x,\0', '\xff,y'),
)

test('good rows around bad ones are found', async () => {
  const rows = fc.array(
    fc.oneof(
      { weight: 5, arbitrary: goodRow.map((cells) => ({ text: cells.join(','), isGood: true })) },
      { weight: 1, arbitrary: badRow.map((text) => ({ text, isGood: false })) },
    ),
    { maxLength: 30 },
  )
  await fc.assert(
    fc.asyncProperty(rows, sizes, async (rows, sizes) => {
      const file = Buffer.from(`a,b\n${rows.map(({ text }) => text).join('\n')}\n`, 'latin1')
      const found = new Map((await recordsOf(file, sizes)).map(({ line, bytes }) => [line, bytes?.toString('latin1')]))
      const good = rows.flatMap(({ text, isGood }, n) => (isGood ? [{ line: n + 2, text }] : []))
      for (const { line, text } of good) {
        // Two bad rows and everything between them may together be a well-formed record.
        if (rows.filter(({ isGood }) => !isGood).length > 1 && found.get(line) === undefined) continue
        expect([line, found.get(line)]).toEqual([line, text])
      }
    }),
    { numRuns: 1_000 },
  )
})

test('good elements of a JSON list around ones with bad JSON are found', async () => {
  const element = fc.oneof(
    { weight: 5, arbitrary: fc.json().map((text) => ({ text, isGood: true })) },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom('{"a":}', '{a:1}', '{"a":1}}', "{'a':1}", '{"a" "b"}', 'x', '{"a":tru}', '{"a\n":1}', '"x')
        .map((text) => ({ text, isGood: false })),
    },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(element, { maxLength: 20 }), sizes, async (elements, sizes) => {
      const file = Buffer.from(`[\n${elements.map(({ text }) => text).join('\n,\n')}\n]`)
      const found = (await recordsOf(file, sizes)).map(({ bytes }) => bytes?.toString().trim())
      const good = elements.flatMap(({ text, isGood }) => (isGood ? [text.trim()] : []))
      for (const text of good) expect(found).toContain(text)
    }),
    { numRuns: 500 },
  )
})
