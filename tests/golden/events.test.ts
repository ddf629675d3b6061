import { test } from '@jest/globals'
import { statusOf } from '@sluice/api/error-status'
import { encodeEvent, isEscapeFree } from '@sluice/events/encode-event'
import { encodeRowFast } from '@sluice/events/encode-row-fast'
import { eventIdOf, normalizeEvent } from '@sluice/events/normalize-event'
import { AppError } from '@sluice/runtime/errors'
import { badEvents, goodEvents } from './event-samples.ts'
import { expectGolden, joinBlocks, maskIds } from './golden.ts'

const receivedAt = Date.UTC(2026, 0, 15, 12)
const receipt = { receivedAt, environment: 'prod', newEventId: () => 'made' } as const

/** Long runs of one character, which samples have where a length is at its limit, by their number. */
function abbreviated(text: string): string {
  return text.replaceAll(/(.)\1{199,}/gsu, (run, character: string) => `<${character} × ${Array.from(run).length}>`)
}

function block(json: string, text: string): { heading: string; text: string } {
  const heading = abbreviated(json.replaceAll('\n', ' '))
  const shown = heading.length > 250 ? `${heading.slice(0, 200).toWellFormed()}… (${json.length} characters)` : heading
  return { heading: shown, text: abbreviated(text) }
}

test('every good event has the row and the encoding of the golden file', () => {
  const blocks = goodEvents.map((json) => {
    const escapeFree = isEscapeFree(Buffer.from(json))
    const { row, clientId } = normalizeEvent(JSON.parse(json), receipt)
    const plain = encodeRowFast(JSON.parse(json), receipt, escapeFree)
    const { line, ...encoded } = encodeEvent(JSON.parse(json), { receivedAt, environment: 'prod', escapeFree })
    const sameRow = `${JSON.stringify(clientId ? row : { ...row, event_id: '<uuid>' })}\n`
    return block(
      json,
      [
        `row: ${JSON.stringify(row)}`,
        `id of the client: ${clientId}`,
        `written plainly: ${plain !== undefined}`,
        `encoded: ${JSON.stringify(encoded)}`,
        `line: ${maskIds(line) === sameRow ? 'the row' : maskIds(line)}`,
      ].join('\n'),
    )
  })
  expectGolden('events/rows.txt', joinBlocks(blocks))
})

test('every bad event is refused with the texts of the golden file', () => {
  const blocks = badEvents.map((json) => {
    const value: unknown = JSON.parse(json)
    const plain = encodeRowFast(value, receipt, isEscapeFree(Buffer.from(json)))
    const named = eventIdOf(value)
    return block(
      json,
      `${refusalOf(value)}${plain ? '\nplain!' : ''}${named === undefined ? '' : `\nnamed by the id ${named}`}`,
    )
  })
  expectGolden('events/refusals.txt', joinBlocks(blocks))
})

function refusalOf(value: unknown): string {
  try {
    normalizeEvent(value, receipt)
    return 'taken'
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return `${statusOf[error.code]} ${error.message}`
  }
}
