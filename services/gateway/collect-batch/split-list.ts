import { eventLimits } from '@sluice/contracts/event-limits'
import { eventTooLarge } from '@sluice/events/event-errors'
import { parseJsonBody } from '@sluice/http/json-body'
import { AppError, invalidField, invalidFormat } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'

const quote = 0x22
const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** Depth of the items of the list: `{` and `[` of `{"events": [` are the first two levels. */
const itemDepth = 3

/** A body without its items. */
export interface SplitList {
  /** The JSON of the body, in which `[n]` stands for the n-th of `items`: each item that is an object or a list. */
  skeleton: string
  items: readonly (Buffer | AppError)[]
}

/**
 * Finds the items of `{"events": [...]}` without parsing them, so that they can be parsed one by one: a body of 10 MiB
 * takes up to 600 MB when it is parsed as a whole (`[[[[…`, `{},{},…`). The items may turn out not to be JSON.
 *
 * Throws 400 for more separators or items than 2,000 events have; `separatorsMax` is another limit, for a body whose
 * items were counted before. An item with more brackets and commas than an event may have bytes is replaced by a 413
 * error.
 */
export function splitList(bytes: Buffer, separatorsMax: number = eventLimits.batchEventsMax): SplitList {
  const skeleton: string[] = []
  const items: (Buffer | AppError)[] = []
  let depth = 0
  let separators = 0
  /** Start of the current item, and the number of its brackets and commas. */
  let itemStart = 0
  let separatorsInItem = 0
  /** Start of the next part of the skeleton. */
  let partStart = 0

  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at] ?? 0) {
      case quote:
        at = endOfText(bytes, at)
        break
      case openBrace:
      case openBracket:
        depth++
        if (depth === itemDepth) {
          itemStart = at
          separatorsInItem = 0
        }
        separatorsInItem++
        break
      case closeBrace:
      case closeBracket:
        if (depth === itemDepth) {
          // Items without separators between them are no JSON, but each takes memory until that is noticed.
          if (items.length >= separatorsMax) throw tooMany(itemDepth - 1)
          skeleton.push(bytes.toString('utf8', partStart, itemStart), `[${items.length}]`)
          items.push(separatorsInItem > eventLimits.eventBytesMax ? eventTooLarge() : bytes.subarray(itemStart, at + 1))
          partStart = at + 1
        }
        depth--
        break
      case comma:
        if (depth >= itemDepth) separatorsInItem++
        else if (++separators >= separatorsMax) throw tooMany(depth)
        break
      default:
        break
    }
  }
  // A body that ends within an item leaves a skeleton that is not JSON.
  skeleton.push(bytes.toString('utf8', partStart, depth >= itemDepth ? itemStart : bytes.length))
  return { skeleton: skeleton.join(''), items }
}

/**
 * A value of the parsed skeleton, with all digits of its numbers: `[n]` is parsed from the bytes of the n-th item.
 * `parseExactly` recurses, and an item of thousands of nested lists must not affect the other items. Throws AppError
 * for an item that can't be parsed.
 */
export function parseItemExactly(value: unknown, { items }: SplitList): unknown {
  const item = Array.isArray(value) ? items[value[0] as number] : undefined
  if (item === undefined) return value
  if (item instanceof AppError) throw item
  return parseJsonBody(item, parseExactly)
}

/** The index of the quote that ends the text beginning at `start`; the length of the body if there is none. */
function endOfText(bytes: Buffer, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) return at
    if (byte === backslash) at++
  }
  return bytes.length
}

function tooMany(depth: number): AppError {
  return depth === itemDepth - 1
    ? invalidField('events', `must contain at most ${eventLimits.batchEventsMax} events`)
    : invalidFormat('body must be a JSON object with a list "events"')
}
