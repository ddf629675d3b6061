import type { Actor } from '@sluice/contracts/actors'
import type { Criteria } from '@sluice/contracts/conditions'
import type { RetentionMode } from '@sluice/contracts/retention'
import { weekMs } from '@sluice/contracts/time-units'
import type { Range } from '../calendar.ts'
import type { QueryParams } from '../clickhouse/client.ts'
import type { Statement } from '../clickhouse/query-runner.ts'
import { type CohortScope, membersStatement } from '../cohorts/members.ts'
import { actorKeys, siteCondition, userWeeksScope } from '../event-scope.ts'
import { timeSql } from '../time-sql.ts'
import { epochDayOfWeekMs, headEndsMs, type ProjectedWeeks, projectedWeeks, tailBeginsMs } from './projected-weeks.ts'

export interface RetentionStatementSpec extends CohortScope {
  /**
   * Starts of the calendar weeks, Unix ms, ascending; the last week contains `now`. At most 53, because weeks are the
   * bits of a number that JavaScript must represent exactly.
   */
  starts: readonly number[]
  /** Unix ms: no stored event has a later timestamp, even if `now` is in the past. */
  latest: number
  mode: RetentionMode
  /** The persons that are counted. */
  of: Actor
  /** The event type that counts as a return; every type when absent. */
  returnEvent?: string
  /** Criteria that describe the users that are counted; all users when absent. */
  criteria?: Criteria
}

/** The users whose first event is in one week. */
export interface WeekRow {
  /** Index of the week in `starts`. */
  begun: number
  users: number
  /** For each week of `starts`, the number of these users that returned in it. */
  returned: number[]
}

const time = 'toUnixTimestamp64Milli(timestamp)'
const sinceMonday = `(${time} + ${epochDayOfWeekMs}) % ${weekMs}`
const weekBit = `bitShiftLeft(toUInt64(1), toUInt8(intDiv(${time} + ${epochDayOfWeekMs}, ${weekMs}) % 64))`
/**
 * ClickHouse uses the projection only for expressions that are equal to the projection's
 * (packages/event-store/migrations/003-cohorts.sql).
 */
const head = `groupBitOr(if(${sinceMonday} < ${headEndsMs}, ${weekBit}, 0))`
const tail = `groupBitOr(if(${sinceMonday} >= ${tailBeginsMs}, ${weekBit}, 0))`
const projectionSql: Readonly<Record<ProjectedWeeks['projection'], string>> = {
  head,
  tail,
  whole: `bitOr(${head}, ${tail})`,
}

/**
 * Selects users by the week of their first event, with the weeks in which they returned
 * (docs/http-interface.md#retention).
 *
 * The projection `user_weeks` of the table holds each user's first event and the weeks with events. Three kinds of
 * ranges are read from the events themselves: the week of `now`, in which events after `now` do not count; the hours
 * around the starts of weeks that are not UTC's; and all weeks when only one event type counts as a return. Visitors
 * have no projection: their first events are read from all events of the site.
 */
export function retentionStatement(spec: RetentionStatementSpec): Statement {
  const { starts, now, mode, of, returnEvent, criteria } = spec
  const key = actorKeys[of]
  const [from = 0] = starts
  const projection = returnEvent === undefined && of === 'user' ? projectedWeeks(starts, spec) : undefined
  const read = projection?.rawRanges ?? [{ start: from, end: now + 1 }]
  const members = criteria && membersStatement(criteria, spec)
  const week = weekSql(starts, now)
  return {
    sql: `
SELECT
    begun,
    count() AS users,
    sumForEach(arrayMap(week -> ${mode === 'on' ? 'bitTest(active, week)' : 'bitShiftRight(active, week) != 0'}, range(${starts.length}))) AS returned
FROM
(
    SELECT ${key}, ${week('max(first_ms)')} AS begun, groupBitOr(weeks) AS active
    FROM
    (
        SELECT
            ${key},
            toUnixTimestamp64Milli(min(timestamp)) AS first_ms,
            ${projection ? `bitAnd(bitRotateRight(${projectionSql[projection.projection]}, {first_week:UInt8}), {past_weeks:UInt64})` : 'toUInt64(0)'} AS weeks
        FROM events
        WHERE ${of === 'user' ? userWeeksScope(spec) : `${siteCondition(spec)} AND ${key} != 0`} ${members ? `AND user_key IN (SELECT user_key FROM (${members.sql}))` : ''}
        GROUP BY ${key}
        HAVING first_ms >= {from:Int64} AND first_ms <= {now:Int64}
        UNION ALL
        SELECT ${key}, toInt64(0) AS first_ms, bitShiftLeft(toUInt64(1), toUInt8(${week(time)})) AS weeks
        FROM events
        WHERE ${siteCondition(spec)} AND ${key} != 0 AND (${read.map((_, index) => inRange(index)).join(' OR ')})
            ${returnEvent === undefined ? '' : 'AND event_type = {return_event:String}'}
    )
    GROUP BY ${key}
    HAVING max(first_ms) > 0
)
GROUP BY begun`,
    params: {
      site_id: spec.siteId,
      ...(spec.environment === 'all' ? {} : { environment: spec.environment }),
      ...members?.params,
      from,
      now,
      starts: [...starts],
      ...(projection && { first_week: projection.first % 64, past_weeks: 2 ** (starts.length - 1) - 1 }),
      ...rangeParams(read),
      ...(returnEvent === undefined ? {} : { return_event: returnEvent }),
    },
  }
}

/**
 * SQL of the index of the week that contains a time, until `now`. With weeks of unequal lengths, it rounds the distance
 * of the week's start to whole weeks, because a start is at most some days off.
 */
function weekSql(starts: readonly number[], now: number): (at: string) => string {
  const [from = 0] = starts
  const isEven = starts.every((start, index) => start === from + index * weekMs) && now < from + starts.length * weekMs
  if (isEven) return (at) => `intDiv(${at} - {from:Int64}, ${weekMs})`
  return (at) => `intDiv(roundDown(${at}, {starts:Array(Int64)}) - {from:Int64} + ${weekMs / 2}, ${weekMs})`
}

function inRange(index: number): string {
  return `(timestamp >= ${timeSql(`{start_${index}:Int64}`)} AND timestamp < ${timeSql(`{end_${index}:Int64}`)})`
}

function rangeParams(ranges: readonly Range[]): QueryParams {
  return Object.assign(
    {},
    ...ranges.map(({ start, end }, index) => ({ [`start_${index}`]: start, [`end_${index}`]: end })),
  ) as QueryParams
}
