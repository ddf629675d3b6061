import type { EventRow } from './event-row.ts'
import { toEventRow } from './event.ts'
import { SluiceError } from './errors.ts'

/** The time of receipt of every event here. */
export const receivedAt = Date.UTC(2026, 0, 15, 12)

/** What the event becomes; `undefined` values are left out first, as JSON has none. Throws SluiceError 400. */
export function rowOf(event: unknown): EventRow {
  return toEventRow(event, { receivedAt, environment: 'prod', newEventId: () => 'made' }).row
}

/** The row of an event with the two required fields and these. */
export function rowWith(fields: object): EventRow {
  return rowOf({ site_id: 'shop', event_type: 'view', ...fields })
}

/** The same, from JSON text: what an object literal can't say, such as `__proto__`, 1e999 or a doubled name. */
export function rowFromText(fields: string): EventRow {
  return rowOf(JSON.parse(`{"site_id": "shop", "event_type": "view", ${fields}}`))
}

/** The message with which a call is refused as 400, or the word `accepted`. */
export function refusal(call: () => unknown): string {
  try {
    call()
    return 'accepted'
  } catch (error) {
    if (error instanceof SluiceError && error.status === 400) return error.message
    throw error
  }
}
