import { test } from '@jest/globals'
import { statusOf } from '@sluice/api/error-status'
import { encodeEvent } from '@sluice/events/encode-event'
import { eventIdOf } from '@sluice/events/event-errors'
import { AppError } from '@sluice/runtime/errors'
import { badEvents, goodEvents } from './event-samples.ts'
import { expectGolden, joinBlocks, maskIds } from './golden.ts'

const receivedAt = Date.UTC(2026, 0, 15, 12)
const receipt = { receivedAt, environment: 'prod' } as const

/** Replaces long runs of one character, which samples with a text of maximum length have, by their length. */
function abbreviated(text: string): string {
  return text.replaceAll(/(.)\1{199,}/gsu, (run, character: string) => `<${character} × ${Array.from(run).length}>`)
}

function block(json: string, text: string): { heading: string; text: string } {
  const heading = abbreviated(json.replaceAll('\n', ' '))
  const shown = heading.length > 250 ? `${heading.slice(0, 200).toWellFormed()}… (${json.length} characters)` : heading
  return { heading: shown, text: abbreviated(text) }
}

test('every good event has the line and the partition of the golden file', () => {
  const blocks = goodEvents.map((json) => {
    const { line, ...encoded } = encodeEvent(JSON.parse(json), receipt)
    return block(json, `line: ${maskIds(line).trimEnd()}\nencoded: ${JSON.stringify(encoded)}`)
  })
  expectGolden('events/rows.txt', joinBlocks(blocks))
})

test('every bad event is refused with the texts of the golden file', () => {
  const blocks = badEvents.map((json) => {
    const value: unknown = JSON.parse(json)
    const named = eventIdOf(value)
    return block(json, `${refusalOf(value)}${named === undefined ? '' : `\nnamed by the id ${named}`}`)
  })
  expectGolden('events/refusals.txt', joinBlocks(blocks))
})

function refusalOf(value: unknown): string {
  try {
    encodeEvent(value, receipt)
    return 'taken'
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return `${statusOf[error.code]} ${error.message}`
  }
}
