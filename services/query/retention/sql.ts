import type { QueryParams } from '@sluice/clickhouse/client'
import type { Criteria } from '@sluice/contracts/conditions'
import type { RetentionMode } from '@sluice/contracts/retention'
import type { Statement } from '../ask.ts'
import { type CohortScope, membersStatement } from '../cohort-members.ts'
import { ofSite, userWeeksScope } from '../event-scope.ts'
import type { Range } from '../stats/buckets.ts'
import { type KeptWeeks, keptWeeks, weekMs } from './weeks.ts'

export interface RetentionQuestion extends CohortScope {
  /** Of the calendar weeks, Unix ms, ascending; the last is the week of `now`. At most 53: they are the bits of a number that JavaScript holds. */
  starts: readonly number[]
  /** No event is later (Unix ms), whatever `now` is. */
  latest: number
  mode: RetentionMode
  /** The event type that counts as coming back; any unless given. */
  returnEvent?: string
  /** Only users whom these describe. */
  criteria?: Criteria
}

/** Users whose first event is of one week. */
export interface WeekRow {
  /** The week's index. */
  begun: number
  users: number
  /** By index of the week, how many of them came back in it. */
  returned: number[]
}

const time = 'toUnixTimestamp64Milli(timestamp)'
const sinceMonday = `(${time} + 259200000) % 604800000`
const weekBit = `bitShiftLeft(toUInt64(1), toUInt8(intDiv(${time} + 259200000, 604800000) % 64))`
/** By the projection's own expressions (packages/clickhouse/migrations/003-cohorts.sql), or it is not used. */
const head = `groupBitOr(if(${sinceMonday} < 554400000, ${weekBit}, 0))`
const tail = `groupBitOr(if(${sinceMonday} >= 43200000, ${weekBit}, 0))`
const keptSql: Readonly<Record<KeptWeeks['kept'], string>> = { head, tail, whole: `bitOr(${head}, ${tail})` }

/**
 * Users by the week of their first event, and the weeks that they came back in (contract section 6).
 *
 * The first event of each, and in which weeks there was one, is kept by the projection `user_weeks`, which is a part of
 * the events. Read from the events themselves are: the week of `now`, of which what is later does not count; hours that
 * the zone's beginnings of weeks cut; and all of the weeks asked for when one type of event counts.
 */
export function retentionStatement(question: RetentionQuestion): Statement {
  const { starts, now, mode, returnEvent, criteria } = question
  const [from = 0] = starts
  const kept = returnEvent === undefined ? keptWeeks(starts, question) : undefined
  const read = kept?.unkept ?? [{ start: from, end: now + 1 }]
  const members = criteria && membersStatement(criteria, question)
  const week = weekSql(starts)
  return {
    sql: `
SELECT
    begun,
    count() AS users,
    sumForEach(arrayMap(week -> ${mode === 'on' ? 'bitTest(active, week)' : 'bitShiftRight(active, week) != 0'}, range(${starts.length}))) AS returned
FROM
(
    SELECT user_key, ${week('max(first_ms)')} AS begun, groupBitOr(weeks) AS active
    FROM
    (
        SELECT
            user_key,
            toUnixTimestamp64Milli(min(timestamp)) AS first_ms,
            ${kept ? `bitAnd(bitRotateRight(${keptSql[kept.kept]}, {first_week:UInt8}), {past_weeks:UInt64})` : 'toUInt64(0)'} AS weeks
        FROM events
        WHERE ${userWeeksScope(question)} ${members ? `AND user_key IN (SELECT user_key FROM (${members.sql}))` : ''}
        GROUP BY user_key
        HAVING first_ms >= {from:Int64} AND first_ms <= {now:Int64}
        UNION ALL
        SELECT user_key, toInt64(0) AS first_ms, bitShiftLeft(toUInt64(1), toUInt8(${week(time)})) AS weeks
        FROM events
        WHERE ${ofSite(question)} AND user_key != 0 AND (${read.map((_, index) => inRange(index)).join(' OR ')})
            ${returnEvent === undefined ? '' : 'AND event_type = {return_event:String}'}
    )
    GROUP BY user_key
    HAVING max(first_ms) > 0
)
GROUP BY begun`,
    params: {
      site_id: question.siteId,
      ...(question.environment === 'all' ? {} : { environment: question.environment }),
      ...members?.params,
      from,
      now,
      starts: [...starts],
      ...(kept && { first_week: kept.first % 64, past_weeks: 2 ** (starts.length - 1) - 1 }),
      ...rangeParams(read),
      ...(returnEvent === undefined ? {} : { return_event: returnEvent }),
    },
  }
}

/** The index of a moment's week: the zone's weeks begin at most some days off from even ones. */
function weekSql(starts: readonly number[]): (at: string) => string {
  const [from = 0] = starts
  const isEven = starts.every((start, index) => start === from + index * weekMs)
  if (isEven) return (at) => `intDiv(${at} - {from:Int64}, ${weekMs})`
  return (at) => `intDiv(roundDown(${at}, {starts:Array(Int64)}) - {from:Int64} + ${weekMs / 2}, ${weekMs})`
}

function inRange(index: number): string {
  return `(timestamp >= fromUnixTimestamp64Milli({start_${index}:Int64}, 'UTC') AND timestamp < fromUnixTimestamp64Milli({end_${index}:Int64}, 'UTC'))`
}

function rangeParams(ranges: readonly Range[]): QueryParams {
  return Object.assign(
    {},
    ...ranges.map(({ start, end }, index) => ({ [`start_${index}`]: start, [`end_${index}`]: end })),
  ) as QueryParams
}
