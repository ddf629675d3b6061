import { liveLimits } from '@sluice/contracts/live'
import type { Environment } from '@sluice/contracts/scopes'
import { inKeyOrder, scopeCondition, scopeParams } from '../event-scope.ts'
import type { Statement } from '../query-runner.ts'
import { storedEventColumns } from '../stored-event.ts'

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

/** Selects the newest events from the end of the primary key's order, so that not all of the 24 hours are read. */
export function lastEventsStatement({ siteId, environment, now }: LiveSpec): Statement {
  const { lastEventsHours, lastEventsMax } = liveLimits
  const scope = { siteId, environment, start: now - lastEventsHours * hourMs, end: now }
  return {
    sql: `
SELECT${storedEventColumns}
FROM events
WHERE ${inKeyOrder} AND ${scopeCondition(scope)}
ORDER BY timestamp DESC, event_id DESC
LIMIT ${lastEventsMax}`,
    params: scopeParams(scope),
  }
}
