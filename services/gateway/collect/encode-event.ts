import { crc32 } from 'node:zlib'
import { toEventRow } from '@sluice/contracts/event'
import type { Environment } from '@sluice/contracts/scopes'
import { v7 as uuidv7 } from 'uuid'
import type { EncodedEvent } from '../publish/encode-blocks.ts'

/**
 * The steps from a parsed event to what the log takes: validate and normalise (contracts/event.ts), then encode.
 * Throws SluiceError 400 for the first problem of the event.
 */
export function encodeEvent(
  value: unknown,
  { receivedAt, environment }: { receivedAt: number; environment: Environment },
): EncodedEvent & { siteId: string; bytesAtMost: number } {
  const { row, clientId, bytesAtMost } = toEventRow(value, { receivedAt, environment, newEventId: uuidv7 })
  return {
    siteId: row.site_id,
    bytesAtMost,
    line: `${JSON.stringify(row)}\n`,
    // The site's length parts the two texts: ("a", "bc") and ("ab", "c") are different pairs.
    keyHash: clientId ? crc32(`${row.site_id.length}:${row.site_id}${row.event_id}`) : undefined,
    undated: row.undated === 1,
  }
}
