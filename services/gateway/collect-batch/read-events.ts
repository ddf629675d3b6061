import { eventLimits } from '@sluice/contracts/event-limits'
import { eventTooLarge } from '@sluice/events/event-errors'
import { decodeBody, parseJsonBody, parseJsonText, requireUtf8 } from '@sluice/http/json-body'
import { AppError, invalidField, invalidFormat, missingField } from '@sluice/runtime/errors'
import { isJsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { hasRoundedNumber } from '@sluice/runtime/rounded-numbers'
import { shownName } from '@sluice/runtime/validate'
import { type SplitList, splitList } from './split-list.ts'

/** One item of a batch: a parsed value, or the error of an unreadable one. */
export type BatchItem =
  | {
      value: unknown
      /** True for a line of NDJSON, whose size has been checked. */
      isLine: boolean
      /** Replaces field names in an error with those that the client uses; absent: the names are the same. */
      explain?: (error: AppError) => AppError
      error?: never
    }
  | {
      /** The item, or the known part of it: its id is part of the error. */
      value?: unknown
      isLine?: never
      explain?: never
      error: AppError
    }

/** The events of a batch, and their number, which is known before any event is validated. */
export interface BatchEvents {
  count: number
  items: Iterable<BatchItem>
}

/** A list up to this size is parsed as a whole, which takes at most 120 MB: names with escapes take the most. */
const parsedWholeBytesMax = 1024 * 1024

/**
 * The events of a batch's body: `{"events": [...]}` or one JSON object on each line. A line that is not JSON is an
 * error of that event only. Throws AppError 400 if there is no list, or an empty or too long one; for large bodies the
 * iteration of the items may throw it. Items of large bodies are parsed one by one, so that a caller that keeps no
 * values never has more than one in memory. Items of a body with rounded numbers are parsed one by one, too:
 * `parseExactly` recurses, and an item of thousands of nested lists must not affect the other items.
 */
export function readEvents({ bytes, type }: { bytes: Buffer; type: string }): BatchEvents {
  if (type === 'application/x-ndjson') return readLines(bytes)
  if (bytes.length > parsedWholeBytesMax) return readSplitList(bytes)
  const text = decodeBody(bytes)
  return hasRoundedNumber(text) ? readSplitList(bytes) : readList(text, bytes)
}

function readList(text: string, bytes: Buffer): BatchEvents {
  const list = listOf(parseJsonText(text))
  requireOneList('events', bytes)
  return { count: list.length, items: list.map((value) => ({ value, isLine: false })) }
}

/**
 * Throws AppError 400 for a parsed body that names its list twice: JSON.parse has replaced the first list, whose items
 * would be lost. The body is split only if the name stands in it more than once, perhaps within an item. A name that is
 * written with escapes is not noticed.
 */
export function requireOneList(name: string, bytes: Buffer): void {
  const member = `"${name}"`
  if (bytes.indexOf(member, bytes.indexOf(member) + 1) === -1) return
  const { skeleton, items } = splitList(bytes, Infinity)
  const members = Object.values(parseJsonBody(Buffer.from(skeleton)) as object)
  const kept = members.flatMap((value: unknown): unknown[] => Object.values(value ?? {})).filter(Array.isArray)
  // Other members may stand there twice, too: JSON.parse keeps their last value.
  const isNamedTwice = skeleton.split(member).length > 2
  if (kept.length !== items.length && isNamedTwice) throw namedTwice(name)
}

function namedTwice(name: string): AppError {
  return invalidFormat(`body names "${name}" twice`)
}

function readSplitList(bytes: Buffer): BatchEvents {
  requireUtf8(bytes)
  const { skeleton, items } = splitList(bytes)
  const list = listOf(parseJsonBody(Buffer.from(skeleton)))
  return { count: list.length, items: parseItems(list, items) }
}

function* parseItems(list: readonly unknown[], items: SplitList['items']): Generator<BatchItem> {
  let used = 0
  for (const value of list) {
    const item = Array.isArray(value) ? items[value[0] as number] : undefined
    if (item !== undefined) used++
    if (item instanceof AppError) yield { error: item }
    // A value in the skeleton itself is no object, and so no event.
    else if (item === undefined) yield { value, isLine: false }
    else yield { value: parseJsonBody(item, parseExactly), isLine: false }
  }
  // A second "events" has replaced the first list, whose items were not parsed.
  if (used !== items.length) throw namedTwice('events')
}

function listOf(body: unknown): unknown[] {
  if (!isJsonObject(body)) throw invalidFormat('body must be a JSON object with a list "events"')
  const { events } = body
  if (events === undefined || events === null || events === '') throw missingField('events')
  if (!Array.isArray(events)) throw invalidField('events', 'must be a list')
  const unknown = Object.keys(body).find((name) => name !== 'events')
  if (unknown !== undefined) {
    throw invalidField(shownName(unknown), 'is not known: a batch holds "events" alone')
  }
  checkCount(events.length)
  return events as unknown[]
}

/** A line from its first visible character to its end, so that blank lines need no iteration. */
const lines = /\S[^\n]*/g

function readLines(bytes: Buffer): BatchEvents {
  const text = decodeBody(bytes)
  let count = 0
  for (const line of text.matchAll(lines)) if (line.length > 0 && ++count > eventLimits.batchEventsMax) break
  checkCount(count)
  return { count, items: parseLines(text) }
}

function* parseLines(text: string): Generator<BatchItem> {
  let number = 1
  let countedTo = 0
  for (const { 0: line, index } of text.matchAll(lines)) {
    for (; countedTo < index; countedTo++) if (text.charCodeAt(countedTo) === newline) number++
    yield readLine(line, number)
  }
}

const newline = 10

function readLine(line: string, number: number): BatchItem {
  // White space after the event, such as CR before LF, does not count.
  if (
    Buffer.byteLength(line) > eventLimits.eventBytesMax &&
    Buffer.byteLength(line.trimEnd()) > eventLimits.eventBytesMax
  )
    return { error: eventTooLarge() }
  try {
    return { value: parseExactly(line), isLine: true }
  } catch {
    return { error: invalidFormat(`line ${number} is not valid JSON`) }
  }
}

function checkCount(count: number): void {
  if (count === 0) throw invalidField('events', 'must hold at least 1 event')
  if (count > eventLimits.batchEventsMax) {
    throw invalidField('events', `must contain at most ${eventLimits.batchEventsMax} events`)
  }
}
