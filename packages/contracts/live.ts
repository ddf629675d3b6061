import type { Filter } from './conditions.ts'
import type { Environment } from './scopes.ts'
import type { StoredEvent } from './stored-event.ts'

/** Limits of the live view (`GET /api/v1/live`). */
export const liveLimits = {
  /** Minutes that are counted one by one. */
  minutes: 30,
  /** Minutes that visitors and events are counted over. */
  recentMinutes: 5,
  lastEventsMax: 50,
  /** Hours that the last events may be old. */
  lastEventsHours: 24,
} as const

/** The query of operations that read one site. */
export interface SiteQuery {
  site_id: string
  environment?: Environment | 'all'
}

/** The query of GET /api/v1/live. */
export interface LiveQuery extends SiteQuery {
  filter?: Filter
}

/** `data` of GET /api/v1/live (docs/http-interface.md#live). */
export interface LiveResult {
  visitors_5m: number
  events_5m: number
  /** Events of each of the last minutes, the earliest first. */
  per_minute: number[]
  /** The newest first. */
  last_events: StoredEvent[]
  /** Every event that was received until then and accepted is counted, Unix ms. */
  complete_until: number
}
