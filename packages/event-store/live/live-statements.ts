import type { PropertyType } from '@sluice/contracts/event-columns'
import { liveLimits } from '@sluice/contracts/live'
import type { Environment } from '@sluice/contracts/scopes'
import { scopeCondition, scopeParams } from '../event-scope.ts'
import type { Statement } from '../query-runner.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

export interface LiveSpec {
  siteId: string
  environment: Environment | 'all'
  /** Unix ms. */
  now: number
}

/** Events of one minute; the totals hold the visitors of the recent minutes. */
export interface MinuteRow {
  /** Index of the minute, 0 being the earliest. */
  minute: number
  events: number
  visitors: number
}

/** Selects the number of events of each of the last minutes that have events. */
export function countsStatement({ siteId, environment, now }: LiveSpec): Statement {
  const { minutes, recentMinutes } = liveLimits
  const scope = { siteId, environment, start: now - minutes * minuteMs, end: now }
  return {
    sql: `
SELECT
    intDiv(toUnixTimestamp64Milli(timestamp) - {start:Int64}, ${minuteMs}) AS minute,
    count() AS events,
    uniqExactIf(visitor_key, visitor_key != 0 AND minute >= ${minutes - recentMinutes}) AS visitors
FROM events
WHERE ${scopeCondition(scope)}
GROUP BY minute WITH TOTALS`,
    params: scopeParams(scope),
  }
}

/** An event with all its columns, `''` standing for an absent value; times are Unix ms. */
export interface EventColumnsRow {
  event_id: string
  event_type: string
  timestamp: number
  received_at: number
  environment: Environment
  session_id: string
  user_id: string
  anonymous_id: string
  url: string
  referrer: string
  country: string
  device_type: string
  properties: Record<string, string>
  property_types: Record<string, PropertyType>
}

/** Selects the newest events from the end of the primary key's order, so that not all of the 24 hours are read. */
export function lastEventsStatement({ siteId, environment, now }: LiveSpec): Statement {
  const { lastEventsHours, lastEventsMax } = liveLimits
  const scope = { siteId, environment, start: now - lastEventsHours * hourMs, end: now }
  return {
    sql: `
SELECT
    event_id, event_type, toUnixTimestamp64Milli(time) AS timestamp, toUnixTimestamp64Milli(received) AS received_at,
    environment, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, property_types
FROM
(
    SELECT *, timestamp AS time, received_at AS received
    FROM events
    WHERE ${scopeCondition(scope)}
    ORDER BY events.timestamp DESC, event_id DESC
    LIMIT ${lastEventsMax}
)
ORDER BY time DESC, event_id DESC`,
    params: scopeParams(scope),
  }
}
