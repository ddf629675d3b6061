import type { Filter } from '@sluice/contracts/conditions'
import { liveLimits } from '@sluice/contracts/live'
import type { Environment } from '@sluice/contracts/scopes'
import { hourMs, minuteMs } from '@sluice/contracts/time-units'
import type { Statement } from '../clickhouse/query-runner.ts'
import { conditionSql } from '../conditions.ts'
import { type EventScope, inKeyOrder, joinUsers, scopeCondition, scopeParams } from '../event-scope.ts'
import { storedEventColumns } from '../stored-event.ts'

/** The latest events of a site, and counts over the minutes before `now`. */
export interface LiveSpec {
  siteId: string
  environment: Environment | 'all'
  /** Unix ms. */
  now: number
  /** Conditions that an event must meet. */
  conditions: Filter
}

/** Events of one minute; the totals hold the visitors of the recent minutes. */
export interface MinuteRow {
  /** Index of the minute, 0 being the earliest. */
  minute: number
  events: number
  visitors: number
}

/** Selects the number of events of each of the last minutes that have events. */
export function countsStatement({ siteId, environment, now, conditions }: LiveSpec): Statement {
  const { minutes, recentMinutes } = liveLimits
  const scope = { siteId, environment, start: now - minutes * minuteMs, end: now }
  const matching = matchingEvents(scope, conditions)
  return {
    sql: `
SELECT
    intDiv(toUnixTimestamp64Milli(timestamp) - {start:Int64}, ${minuteMs}) AS minute,
    count() AS events,
    uniqExactIf(visitor_key, visitor_key != 0 AND minute >= ${minutes - recentMinutes}) AS visitors
${matching.from}
WHERE ${scopeCondition(scope)}${matching.where}
GROUP BY minute WITH TOTALS`,
    params: { ...scopeParams(scope), ...matching.params },
  }
}

/** Selects the newest events from the end of the primary key's order, so that not all of the 24 hours are read. */
export function lastEventsStatement({ siteId, environment, now, conditions }: LiveSpec): Statement {
  const { lastEventsHours, lastEventsMax } = liveLimits
  const scope = { siteId, environment, start: now - lastEventsHours * hourMs, end: now }
  const matching = matchingEvents(scope, conditions)
  return {
    sql: `
SELECT${storedEventColumns}
${matching.from}
WHERE ${inKeyOrder} AND ${scopeCondition(scope)}${matching.where}
ORDER BY timestamp DESC, event_id DESC
LIMIT ${lastEventsMax}`,
    params: { ...scopeParams(scope), ...matching.params },
  }
}

/** SQL of the events that meet the conditions. */
function matchingEvents(
  scope: EventScope,
  conditions: Filter,
): { from: string; where: string } & Pick<Statement, 'params'> {
  const condition = conditionSql(conditions, { prefix: 'filter' })
  const join = joinUsers(scope, condition.userFields)
  return {
    from: `FROM events${join === '' ? '' : ` ${join}`}`,
    where: conditions.length === 0 ? '' : ` AND ${condition.sql}`,
    params: condition.params,
  }
}
