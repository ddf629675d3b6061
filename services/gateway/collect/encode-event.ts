import { toEventRow } from '@sluice/contracts/event'
import { writePlainRow } from '@sluice/contracts/plain-event'
import type { Environment } from '@sluice/contracts/scopes'
import { v7 as uuidv7 } from 'uuid'
import type { EncodedEvent } from '../publish/encode-blocks.ts'

const backslash = 0x5c

/** True when no text in this JSON is written with an escape, which makes its events cheaper to write again. */
export function isEscapeFree(json: Buffer): boolean {
  return !json.includes(backslash)
}

/**
 * The steps from a parsed event to what the log takes: validate and normalise (contracts/event.ts), then encode.
 * Throws SluiceError 400 for the first problem of the event.
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
    /** `isEscapeFree` of the JSON it came in. */ escapeFree: boolean
  },
): EncodedEvent & {
  siteId: string
  /** Unix ms. */
  timestamp: number
  /** The event's compact JSON has at most so many bytes; Infinity: not known. */
  bytesAtMost: number
} {
  const receipt = { receivedAt, environment, newEventId: uuidv7 }
  const plain = writePlainRow(value, receipt, escapeFree)
  if (plain) {
    const { json, siteId, eventId, undated } = plain
    return {
      siteId,
      // A plain event's is a number, or absent.
      timestamp: (value as { timestamp?: number }).timestamp ?? receivedAt,
      line: `${json}\n`,
      keyHash: eventId === undefined ? undefined : hashOf(siteId, eventId),
      undated,
      // The row holds all that the event does, and more; three bytes are the most that UTF-16's unit takes in UTF-8.
      bytesAtMost: 3 * json.length,
    }
  }
  const { row, clientId } = toEventRow(value, receipt)
  return {
    siteId: row.site_id,
    timestamp: row.timestamp,
    line: `${JSON.stringify(row)}\n`,
    keyHash: clientId ? hashOf(row.site_id, row.event_id) : undefined,
    undated: row.undated === 1,
    bytesAtMost: Infinity,
  }
}

/** FNV-1a over UTF-16 units, its bits mixed once more (MurmurHash3's end): partitions take the lowest ones. */
function hashOf(siteId: string, eventId: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < siteId.length; i++) hash = Math.imul(hash ^ siteId.charCodeAt(i), 0x01000193)
  // Parts the two texts: ("a", "bc") and ("ab", "c") are different pairs.
  hash = Math.imul(hash ^ 0xffff, 0x01000193)
  for (let i = 0; i < eventId.length; i++) hash = Math.imul(hash ^ eventId.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
