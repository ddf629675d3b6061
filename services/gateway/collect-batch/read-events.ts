import { eventLimits } from '@sluice/contracts/event-fields'
import { eventTooLarge } from '@sluice/contracts/event'
import { invalidField, invalidFormat, missingField, type SluiceError } from '@sluice/contracts/errors'
import { parseJson } from '@sluice/http/json-body'

/** One item of a batch: a parsed value, or why it can't be one. */
export type BatchItem = { value: unknown; error?: never } | { value?: never; error: SluiceError }

/**
 * The events of a batch's body: `{"events": [...]}` or one JSON object a line. A line that is not JSON is that event's
 * error, not the batch's. Throws SluiceError 400 when there is no list, or an empty or too long one.
 */
export function readEvents({ bytes, type }: { bytes: Buffer; type: string }): BatchItem[] {
  const items = type === 'application/x-ndjson' ? readLines(bytes) : readList(parseJson(bytes))
  if (items.length === 0) throw invalidField('events', 'must hold at least 1 event')
  if (items.length > eventLimits.batchEventsMax) {
    throw invalidField('events', `must hold at most ${eventLimits.batchEventsMax} events`)
  }
  return items
}

function readList(body: unknown): BatchItem[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidFormat('body must be a JSON object with a list "events"')
  }
  const { events, ...rest } = body as { events?: unknown }
  if (events === undefined || events === null) throw missingField('events')
  if (!Array.isArray(events)) throw invalidField('events', 'must be a list')
  const [unknown] = Object.keys(rest)
  if (unknown !== undefined) throw invalidField(unknown.slice(0, 64), 'is not known: a batch holds "events" alone')
  return events.map((value: unknown) => ({ value }))
}

function readLines(bytes: Buffer): BatchItem[] {
  const items: BatchItem[] = []
  const lines = bytes.toString('utf8').split('\n')
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue
    if (items.length > eventLimits.batchEventsMax) break
    items.push(readLine(line, index + 1))
  }
  return items
}

function readLine(line: string, number: number): BatchItem {
  if (Buffer.byteLength(line) > eventLimits.eventBytesMax) return { error: eventTooLarge() }
  try {
    return { value: JSON.parse(line) as unknown }
  } catch {
    return { error: invalidFormat(`line ${number} is not valid JSON`) }
  }
}
