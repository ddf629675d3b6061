import { eventLimits } from '@sluice/contracts/event-fields'
import { eventTooLarge } from '@sluice/contracts/event'
import { invalidField, invalidFormat, missingField, type SluiceError } from '@sluice/contracts/errors'
import { parseJson } from '@sluice/http/json-body'

/** One item of a batch: a parsed value, or why it can't be one. */
export type BatchItem =
  | {
      value: unknown
      /** It came as a line, whose size is known to be allowed. */
      isLine: boolean
      error?: never
    }
  | { value?: never; isLine?: never; error: SluiceError }

/**
 * The events of a batch's body: `{"events": [...]}` or one JSON object a line. A line that is not JSON is that event's
 * error, not the batch's. Throws SluiceError 400 when there is no list, or an empty or too long one.
 */
export function readEvents({ bytes, type }: { bytes: Buffer; type: string }): BatchItem[] {
  return type === 'application/x-ndjson' ? readLines(bytes) : readList(parseJson(bytes))
}

function readList(body: unknown): BatchItem[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidFormat('body must be a JSON object with a list "events"')
  }
  const { events } = body as { events?: unknown }
  if (events === undefined || events === null) throw missingField('events')
  if (!Array.isArray(events)) throw invalidField('events', 'must be a list')
  const unknown = Object.keys(body).find((name) => name !== 'events')
  if (unknown !== undefined) {
    throw invalidField(unknown.slice(0, 64).toWellFormed(), 'is not known: a batch holds "events" alone')
  }
  checkCount(events.length)
  return events.map((value: unknown) => ({ value, isLine: false }))
}

function readLines(bytes: Buffer): BatchItem[] {
  const text = bytes.toString('utf8')
  const items: BatchItem[] = []
  let number = 1
  let countedTo = 0
  // From a line's first character to its end: millions of blank lines are skipped without a step for each.
  for (const { 0: line, index } of text.matchAll(/\S[^\n]*/g)) {
    for (; countedTo < index; countedTo++) if (text.charCodeAt(countedTo) === newline) number++
    items.push(readLine(line, number))
    if (items.length > eventLimits.batchEventsMax) break
  }
  checkCount(items.length)
  return items
}

const newline = 10

function readLine(line: string, number: number): BatchItem {
  if (Buffer.byteLength(line) > eventLimits.eventBytesMax) return { error: eventTooLarge() }
  try {
    return { value: JSON.parse(line) as unknown, isLine: true }
  } catch {
    return { error: invalidFormat(`line ${number} is not valid JSON`) }
  }
}

function checkCount(count: number): void {
  if (count === 0) throw invalidField('events', 'must hold at least 1 event')
  if (count > eventLimits.batchEventsMax) {
    throw invalidField('events', `must hold at most ${eventLimits.batchEventsMax} events`)
  }
}
