import type { EventPosition } from '@sluice/contracts/events'
import { environments } from '@sluice/contracts/scopes'
import { latestMs } from '@sluice/contracts/stats'

/** Writes a place in the list of events as text for a URL. Callers pass the text back unchanged. */
export function encodeEventCursor({ timestamp, eventId, environment }: EventPosition): string {
  return Buffer.from(JSON.stringify([timestamp, eventId, environment])).toString('base64url')
}

/** Reads a text of `encodeEventCursor`; undefined for any other text. */
export function decodeEventCursor(cursor: string): EventPosition | undefined {
  const position = toPosition(parseJson(Buffer.from(cursor, 'base64url').toString()))
  // Buffer.from skips characters that are not base64, so only the text that encodeEventCursor writes is accepted.
  return position !== undefined && encodeEventCursor(position) === cursor ? position : undefined
}

function toPosition(value: unknown): EventPosition | undefined {
  if (!Array.isArray(value) || value.length !== 3) return undefined
  const [timestamp, eventId, name] = value as unknown[]
  const environment = environments.find((each) => each === name)
  if (typeof timestamp !== 'number' || typeof eventId !== 'string' || environment === undefined) return undefined
  const isTime = Number.isSafeInteger(timestamp) && timestamp >= 0 && timestamp <= latestMs
  return isTime && !eventId.includes('\0') ? { timestamp, eventId, environment } : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
