import type { EventPosition } from '@sluice/contracts/events'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { type StoredEventRow, toStoredEvent } from '../stored-event.ts'
import { type EventsSpec, eventsStatement } from './events-statement.ts'

/** A page of a site's events. */
export interface EventsPage {
  /** The newest first. */
  events: StoredEvent[]
  /** Where the next page begins; undefined on the last page. */
  next: EventPosition | undefined
}

/**
 * Lists a page of the events of a scope (docs/http-interface.md#events). Throws QueryTooLargeError when finding rare
 * events in the range takes too long, and the other errors of the runner.
 */
export async function listEvents(spec: EventsSpec, runner: QueryRunner): Promise<EventsPage> {
  // One row more than requested shows whether there is another page.
  const { rows } = await runner.query<StoredEventRow>(eventsStatement({ ...spec, limit: spec.limit + 1 }))
  const events = rows.slice(0, spec.limit).map(toStoredEvent)
  const last = rows.length > spec.limit ? events.at(-1) : undefined
  return {
    events,
    next: last && { timestamp: last.timestamp, eventId: last.event_id, environment: last.environment },
  }
}
