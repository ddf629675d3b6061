import type { Filter } from './conditions.ts'
import type { Environment } from './scopes.ts'
import type { Period } from './stats.ts'
import type { StoredEvent } from './stored-event.ts'

/** Events of one page. */
export const eventsLimits = { limitDefault: 50, limitMax: 1_000 } as const

/** The place of an event in the order of the list; no two events of a site have the same. */
export interface EventPosition {
  /** Unix ms. */
  timestamp: number
  eventId: string
  environment: Environment
}

/** The validated query of GET /api/v1/events (docs/http-interface.md#events). */
export interface EventsQuery {
  site_id: string
  start_date?: number
  end_date?: number
  period?: Period
  environment?: Environment | 'all'
  filter?: Filter
  limit: number
  /** The last event of the previous page; clients send it as the `next_before` of that page. */
  before?: EventPosition
}

/** `data` of GET /api/v1/events. */
export interface EventsResult {
  /** The newest first by timestamp, then by `event_id`. */
  events: StoredEvent[]
  /** `before` of the next page; null on the last one. */
  next_before: string | null
}
