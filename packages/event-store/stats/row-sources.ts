import { propertyPrefix } from '@sluice/contracts/conditions'
import type { Dimension, Metric } from '@sluice/contracts/stats'
import { isSessionMetric } from '@sluice/contracts/stats'
import { isTimeUnit } from '../calendar.ts'
import type { QueryParams } from '../clickhouse/client.ts'
import { clickHouseCode } from '../clickhouse/errors.ts'
import { conditionSql, eventFieldSql } from '../conditions.ts'
import {
  joinUsers,
  outsideWholeQuarters,
  quarterMs,
  scopeCondition,
  scopeParams,
  scopeParts,
  siteIdCondition,
  wholeQuarterCondition,
  wholeQuarters,
} from '../event-scope.ts'
import { distinctKeyOf } from '../metric-keys.ts'
import { eventOrder, joinOverlongSessions, sessionWindowMs } from '../session-sql.ts'
import { timeSql } from '../time-sql.ts'
import type { StatsPlan } from './spec.ts'

/**
 * The rows that a plan is evaluated over. `time`, `group` and `count` are SQL over the columns of `from`, because each
 * source computes them differently. Statements name the columns from which a metric is computed.
 */
export interface RowSource {
  /** `FROM … WHERE …` of a statement. */
  from: string
  /** SQL of a row's time, Unix ms. */
  time: string
  /** SQL of the value by which the plan groups rows; `''` for a grouping by time or no grouping. */
  group: string
  /** SQL of the number of events or sessions. */
  count: string
  params: QueryParams
}

/** Chooses the rows that a plan is evaluated over. */
export function rowSourceOf(plan: StatsPlan): RowSource {
  return isSessionMetric(plan.metric) ? sessionRows(plan) : (countRowSource(plan) ?? eventRows(plan, hasKey(plan)))
}

/**
 * SQL of the condition that an event has the key whose distinct values the metric counts. ClickHouse then removes the
 * other events before it counts, which takes less time than the same condition in the aggregate function. A group by
 * value whose events have no key is listed with 0, so such a plan has no condition.
 */
function hasKey(plan: StatsPlan): string[] {
  const key = distinctKeyOf(plan)
  const isByValue = plan.groupBy !== undefined && !isTimeUnit(plan.groupBy)
  return key === undefined || isByValue ? [] : [`${key} != 0`]
}

/** The events of the range that match the filters and the further conditions, which are SQL. */
export function eventRows(plan: StatsPlan, extraConditions: readonly string[] = []): RowSource {
  const filter = filterSql(plan)
  const params = { ...paramsFor(plan), ...filter.params }
  const { join } = filter
  const where = (scope: string): string => [scope, ...extraConditions, ...filter.conditions].join(' AND ')
  if (!areBucketsWholeQuarters(plan)) {
    return {
      from: `FROM events ${join} WHERE ${where(scopeCondition(plan))}`,
      time: 'toUnixTimestamp64Milli(timestamp)',
      group: `''`,
      count: 'count()',
      params,
    }
  }
  const columns = [
    isTimeUnit(plan.groupBy) ? 'quarter' : `${groupSql(plan)} AS grouped`,
    ...measuredColumns(plan.metric),
  ].join(', ')
  const parts = scopeParts(plan).map((scope) => `SELECT ${columns} FROM events ${join} WHERE ${where(scope)}`)
  return {
    from: `FROM (${parts.join('\nUNION ALL\n')})`,
    time: quarterTime,
    group: 'grouped',
    count: 'count()',
    params,
  }
}

/** SQL of a row's time, Unix ms, from its quarter of an hour. */
const quarterTime = 'toInt64(toUnixTimestamp(quarter)) * 1000'

/** True when every bucket begins at a whole quarter of an hour, and for a plan without buckets. */
function areBucketsWholeQuarters({ buckets }: StatsPlan): boolean {
  return buckets.every((start) => start % quarterMs === 0)
}

/** Columns of an event that a metric is computed from. */
function measuredColumns(metric: Metric): readonly string[] {
  if (metric === 'event_count_by_type') return ['event_type']
  const key = distinctKeyOf({ metric })
  return key === undefined ? [] : [key]
}

/**
 * Counts of events by quarter of an hour, from the projection `counts` (packages/event-store/migrations). Incomplete
 * quarters at the ends of the range are counted from the events. Undefined for plans that need more than counts by
 * type, country and device, or whose buckets begin within a quarter.
 */
export function countRowSource(plan: StatsPlan): RowSource | undefined {
  const { metric, start, end, groupBy, conditions } = plan
  const whole = wholeQuarters(plan)
  const isByTime = isTimeUnit(groupBy)
  const dimension = groupBy === undefined || isByTime ? undefined : countedDimensions.find((name) => name === groupBy)
  const isCounted =
    (metric === 'event_count' || metric === 'event_count_by_type') &&
    (groupBy === undefined || isByTime || dimension !== undefined) &&
    areBucketsWholeQuarters(plan) &&
    conditions.length === 0
  if (!isCounted || whole === undefined) return undefined

  const dimensions = new Set([...(metric === 'event_count_by_type' ? ['event_type' as const] : []), dimension])
  const keys = [...(isByTime ? ['toStartOfFifteenMinutes(timestamp)'] : []), ...dimensions].filter(
    (key) => key !== undefined,
  )
  const columns = [...(isByTime ? [`${keys[0] ?? ''} AS quarter`, ...keys.slice(1)] : keys), 'count() AS events']
  const filter = filterSql(plan)
  const counted = (...scope: string[]): string => `
    SELECT ${columns.join(', ')}
    FROM events
    WHERE ${[...scope, ...filter.conditions].join(' AND ')}
    ${keys.length === 0 ? '' : `GROUP BY ${keys.join(', ')}`}`
  const quarters = counted(
    siteIdCondition(plan),
    // ClickHouse uses the projection only for the expression that defines it.
    wholeQuarterCondition('toStartOfFifteenMinutes(timestamp)'),
  )
  const edges = counted(scopeCondition(plan), outsideWholeQuarters)
  const isAligned = start === whole.start && end === whole.end
  return {
    from: `FROM (${isAligned ? quarters : `${quarters} UNION ALL ${edges}`})`,
    time: quarterTime,
    group: dimension ?? `''`,
    count: 'sum(events)',
    params: { ...paramsFor(plan), ...filter.params },
  }
}

const countedDimensions = ['event_type', 'country', 'device_type'] as const

/** The error code of throwIf. The cheap statement fails with it when it can't evaluate a session of the range. */
export const unusualSessionCode = clickHouseCode.throwIf

/**
 * One row for each session that starts in the range (docs/http-interface.md#stats-sessions), with the columns
 * started_ms, duration_ms, event_count and is_converted. A session starts with its first event in the range or in the
 * 24 h before the range. It contains the events of the following 24 h, also those after the range.
 *
 * With `allowsUnusual`, the statement first selects the sessions that continue after their 24 h, so that later events
 * are left out. Most sites have no such session, so the cheap statement, which reads the events once, is tried first.
 * Joining every event with the start of its session, or a window function, takes 2–3 times as long. With
 * `allowsUnusual`, groups by value also compare the ids of events, which takes longest. Without it, the statement fails
 * when the first events of a session have the same time and different values.
 */
function sessionRows(plan: StatsPlan): RowSource {
  const { groupBy, metrics, targetEvent, sessionsUntil } = plan
  const { sampleFactor, allowsUnusual } = plan.sessions
  const isConversion = metrics.includes('conversion_rate')
  const isByValue = groupBy !== undefined && !isTimeUnit(groupBy)
  // Sessions often begin with two events that have the same time and different types.
  const comparesIds = allowsUnusual || groupBy === 'event_type'
  const filter = filterSql(plan)
  const until = sessionsUntil === undefined ? '' : ` AND timestamp < ${timeSql('{sessions_until:Int64}')}`
  const events = `${scopeCondition(plan, sessionWindowMs)}${until} AND session_key != 0${sampleFactor === 1 ? '' : ` AND session_key % ${sampleFactor} = 0`}`
  const columns = [
    'toUnixTimestamp64Milli(min(timestamp)) AS started_ms',
    'toUnixTimestamp64Milli(max(timestamp)) - started_ms AS duration_ms',
    'count() AS event_count',
    ...(isConversion ? ['countIf(event_type = {target_event:String}) > 0 AS is_converted'] : []),
    ...(isByValue ? [`argMin(${groupSql(plan)}, ${comparesIds ? eventOrder : 'timestamp'}) AS first_group`] : []),
  ]
  const unusual = [
    `duration_ms >= ${sessionWindowMs}`,
    ...(isByValue && !comparesIds ? [severalFirstValues(groupSql(plan))] : []),
  ].join(' OR ')
  return {
    from: `
FROM
(
    SELECT ${columns.join(', ')}
    FROM events
    ${filter.join}
    ${allowsUnusual ? joinOverlongSessions(events) : ''}
    WHERE ${events} ${allowsUnusual ? 'AND (closed_ms = 0 OR toUnixTimestamp64Milli(timestamp) < closed_ms)' : ''}
    GROUP BY session_key
    HAVING started_ms >= {start:Int64} AND started_ms < {end:Int64}
    ${allowsUnusual ? '' : `AND throwIf(${unusual}, 'a session needs the statement for all sessions') = 0`}
    ${filter.conditions.length === 0 ? '' : `AND countIf(${filter.conditions.join(' AND ')}) > 0`}
)`,
    time: 'started_ms',
    group: 'first_group',
    count: 'count()',
    params: {
      ...paramsFor(plan),
      ...filter.params,
      ...(isConversion ? { target_event: targetEvent } : {}),
      ...(sessionsUntil === undefined ? {} : { sessions_until: sessionsUntil }),
    },
  }
}

/**
 * SQL of the condition that the earliest events of a session have more than one value. Among the events with the least
 * time, it finds the least hash of the value and the least inverted hash. If there are several values, the two belong
 * to different values.
 */
function severalFirstValues(value: string): string {
  const least = (hash: string) =>
    `min(bitOr(bitShiftLeft(toUInt128(toUnixTimestamp64Milli(timestamp) + ${2 ** 52}), 64), ${hash}))`
  const hash = `cityHash64(${value})`
  return `toUInt64(${least(hash)}) != bitNot(toUInt64(${least(`bitNot(${hash})`)}))`
}

function paramsFor(plan: StatsPlan): QueryParams {
  const { groupBy } = plan
  return {
    ...scopeParams(plan),
    ...(groupBy?.startsWith(propertyPrefix) ? { property: groupBy.slice(propertyPrefix.length) } : {}),
  }
}

/** SQL of the value by which the plan groups events; `''` for a grouping by time or no grouping. */
function groupSql({ groupBy }: StatsPlan): string {
  if (groupBy === undefined || isTimeUnit(groupBy)) return `''`
  return isProperty(groupBy) ? 'properties[{property:String}]' : eventFieldSql[groupBy]
}

function isProperty(dimension: Dimension): dimension is `properties.${string}` {
  return dimension.startsWith(propertyPrefix)
}

/** SQL of the conditions that events must meet, and of the join that the conditions need. */
function filterSql(plan: StatsPlan): {
  conditions: string[]
  join: string
  params: QueryParams
} {
  const { filters, conditions } = plan
  const condition = conditionSql(conditions, { prefix: 'filter' })
  return {
    conditions: [
      ...Object.keys(filters).map((field) => `${field} = {${field}:String}`),
      ...(conditions.length === 0 ? [] : [condition.sql]),
    ],
    join: joinUsers(plan, condition.userFields),
    params: { ...filters, ...condition.params },
  }
}
