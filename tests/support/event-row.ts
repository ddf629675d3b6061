import { randomUUID } from 'node:crypto'
import type { EventRow } from '@sluice/contracts/event-columns'

/** When the events of `row` were sent: an hour ago, and so before what the tests request. */
export const sent = Date.now() - 3_600_000

/** A stored event of the user `ada` on a site. */
export function row(site: string, fields: Partial<EventRow> = {}): EventRow {
  return {
    site_id: site,
    environment: 'prod',
    event_type: 'view',
    timestamp: sent,
    event_id: randomUUID(),
    user_id: 'ada',
    session_id: 's1',
    received_at: sent,
    ...fields,
  }
}
