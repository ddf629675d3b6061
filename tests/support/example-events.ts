import { statusOf } from '@sluice/api/error-status'
import type { EventRow } from '@sluice/contracts/event-columns'
import { encodeEvent } from '@sluice/events/encode-event'
import { AppError } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'

/** The time of receipt of every event here. */
export const receivedAt = Date.UTC(2026, 0, 15, 12)

/** The row of an event; one without an id gets the id `made`. Throws the AppError of a bad event. */
export function rowOf(event: unknown): EventRow {
  const { line, keyHash } = encodeEvent(event, { receivedAt, environment: 'prod' })
  const row = JSON.parse(line) as EventRow
  return keyHash === undefined ? { ...row, event_id: 'made' } : row
}

/** The row of an event with the two required fields and these. */
export function rowWith(fields: object): EventRow {
  return rowOf({ site_id: 'shop', event_type: 'view', ...fields })
}

/**
 * The same, from JSON text, which may have what an object literal can't express: `__proto__`, 1e999 or a repeated name.
 */
export function rowFromText(fields: string): EventRow {
  return rowOf(parseExactly(`{"site_id": "shop", "event_type": "view", ${fields}}`))
}

/** The message with which a call is refused as 400, or the word `accepted`. */
export function refusal(call: () => unknown): string {
  try {
    call()
    return 'accepted'
  } catch (error) {
    if (error instanceof AppError && statusOf[error.code] === 400) return error.message
    throw error
  }
}
