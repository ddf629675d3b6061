import { eventLimits } from '@sluice/contracts/event-fields'
import { eventTooLarge } from '@sluice/contracts/event'
import { invalidField, invalidFormat, type SluiceError } from '@sluice/contracts/errors'

const quote = 0x22
const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** Depth of the list's items: `{"events": [` are the first two. */
const itemDepth = 3

/** A body without its items. */
export interface SplitList {
  /** The body's JSON, with `[n]` in place of every item that is an object or a list: the n-th of `items`. */
  skeleton: string
  items: readonly (Buffer | SluiceError)[]
}

/**
 * Finds the items of `{"events": [...]}` without parsing them, so that they can be parsed one by one: a body of 10 MiB
 * takes up to 600 MB when it is parsed as a whole (`[[[[…`, `{},{},…`). Whether they are JSON shows when they are parsed.
 *
 * Throws 400 for more separators than 2,000 events have. An item with more brackets and commas than the bytes that an
 * event may have is its 413, whatever else it is.
 */
export function splitList(bytes: Buffer): SplitList {
  const skeleton: string[] = []
  const items: (Buffer | SluiceError)[] = []
  let depth = 0
  let separators = 0
  /** Where the item begins that is being read, and its brackets and commas. */
  let start = 0
  let marks = 0
  /** Where the skeleton's next part begins. */
  let rest = 0

  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at] ?? 0) {
      case quote:
        at = endOfText(bytes, at)
        break
      case openBrace:
      case openBracket:
        depth++
        if (depth === itemDepth) {
          start = at
          marks = 0
        }
        marks++
        break
      case closeBrace:
      case closeBracket:
        if (depth === itemDepth) {
          skeleton.push(bytes.toString('utf8', rest, start), `[${items.length}]`)
          items.push(marks > eventLimits.eventBytesMax ? eventTooLarge() : bytes.subarray(start, at + 1))
          rest = at + 1
        }
        depth--
        break
      case comma:
        if (depth >= itemDepth) marks++
        else if (++separators >= eventLimits.batchEventsMax) throw tooMany(depth)
        break
      default:
        break
    }
  }
  // What is cut off within an item leaves a skeleton that is no JSON.
  skeleton.push(bytes.toString('utf8', rest, depth >= itemDepth ? start : bytes.length))
  return { skeleton: skeleton.join(''), items }
}

/** The index of the quote that ends the text which begins at `start`; of the last byte when there is none. */
function endOfText(bytes: Buffer, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) return at
    if (byte === backslash) at++
  }
  return bytes.length
}

function tooMany(depth: number): SluiceError {
  return depth === itemDepth - 1
    ? invalidField('events', `must hold at most ${eventLimits.batchEventsMax} events`)
    : invalidFormat('body must be a JSON object with a list "events"')
}
