import { v7 as uuidv7 } from 'uuid'
import type { Environment } from '@sluice/contracts/scopes'
import { encodeRowFast } from './encode-row-fast.ts'
import { normalizeEvent } from './normalize-event.ts'

const backslash = 0x5c

/** True for JSON without escapes, whose events are cheaper to encode. */
export function isEscapeFree(json: Buffer): boolean {
  return !json.includes(backslash)
}

/**
 * Validates, normalises and encodes a parsed event (docs/http-interface.md#event-fields) for the log. Throws an AppError
 * (400) for the first problem of the event.
 */
export function encodeEvent(
  value: unknown,
  {
    receivedAt,
    environment,
    escapeFree,
  }: {
    receivedAt: number
    environment: Environment
    /** Whether `isEscapeFree` is true for the JSON of the event. */
    escapeFree: boolean
  },
): EncodedEvent & {
  siteId: string
  /** Upper bound of the bytes of the event's compact JSON; Infinity when unknown. */
  bytesAtMost: number
} {
  const context = { receivedAt, environment, newEventId: uuidv7 }
  const fast = encodeRowFast(value, context, escapeFree)
  if (fast) {
    const { json, siteId, eventId, undated } = fast
    return {
      siteId,
      // The fast path accepts a number or an absent timestamp.
      timestamp: (value as { timestamp?: number }).timestamp ?? receivedAt,
      line: `${json}\n`,
      keyHash: eventId === undefined ? undefined : hashOf(siteId, eventId),
      undated,
      // The row has all texts of the event; a UTF-16 unit takes at most three bytes in UTF-8.
      bytesAtMost: 3 * json.length,
    }
  }
  const { row, clientId } = normalizeEvent(value, context)
  return {
    siteId: row.site_id,
    timestamp: row.timestamp,
    line: `${JSON.stringify(row)}\n`,
    keyHash: clientId ? hashOf(row.site_id, row.event_id) : undefined,
    undated: row.undated === 1,
    bytesAtMost: Infinity,
  }
}

/** FNV-1a over UTF-16 units, mixed by the last step of MurmurHash3 because partitions use the lowest bits. */
function hashOf(siteId: string, eventId: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < siteId.length; i++) hash = Math.imul(hash ^ siteId.charCodeAt(i), 0x01000193)
  // Separates the two texts: ("a", "bc") and ("ab", "c") are different pairs.
  hash = Math.imul(hash ^ 0xffff, 0x01000193)
  for (let i = 0; i < eventId.length; i++) hash = Math.imul(hash ^ eventId.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}

/** One event for the log: its row as a JSON line, with the values that decide its partition and block. */
export interface EncodedEvent {
  /** JSON of the row, with `\n` at the end. */
  line: string
  /** Unix ms. */
  timestamp: number
  /** Hash of (site_id, event_id) when the client sent the id, as copies must be in one partition; undefined otherwise. */
  keyHash: number | undefined
  undated: boolean
}
