import { conditionSql, eventFieldSql } from '@sluice/clickhouse/conditions'
import type { QueryParams } from '@sluice/clickhouse/client'
import type { Dimension, Metric } from '@sluice/contracts/stats'
import {
  atTheEdges,
  inScope,
  isWholeQuarter,
  joinUsers,
  quarterMs,
  scopeParams,
  scopeParts,
  wholeQuarters,
} from '../event-scope.ts'
import { isTimeUnit } from './buckets.ts'
import type { StatsQuestion } from './parameters.ts'

/**
 * What a question is answered from: rows that are measured and grouped. The expressions are over these rows, whose
 * columns bear names of their own: other sources may hold the same for less.
 */
export interface Rows {
  /** `FROM … WHERE …`. */
  from: string
  /** Where a row stands, Unix ms. */
  time: string
  /** What of a row the question groups by, when it does so by value. */
  group: string
  /** How many rows there are. */
  count: string
  params: QueryParams
}

/** A session's length at most, and how far before a range it may have begun (contract section 4), in ms. */
export const sessionWindowMs = 24 * 3_600_000

/** The range's events that match the filters. */
export function eventRows(question: StatsQuestion): Rows {
  const matching = matchingOf(question)
  const params = { ...paramsOf(question), ...matching.params }
  const { join } = matching
  const where = (scope: string): string => [scope, ...matching.conditions].join(' AND ')
  if (!beginWithQuarters(question)) {
    return {
      from: `FROM events ${join} WHERE ${where(inScope(question))}`,
      time: 'toUnixTimestamp64Milli(timestamp)',
      group: `''`,
      count: 'count()',
      params,
    }
  }
  const columns = [
    isTimeUnit(question.groupBy) ? 'quarter' : `${groupOf(question)} AS grouped`,
    ...measuredColumns(question.metric),
  ].join(', ')
  const parts = scopeParts(question).map((scope) => `SELECT ${columns} FROM events ${join} WHERE ${where(scope)}`)
  return {
    from: `FROM (${parts.join('\nUNION ALL\n')})`,
    time: quarterTime,
    group: 'grouped',
    count: 'count()',
    params,
  }
}

/** Where a row stands whose quarter is known. */
const quarterTime = 'toInt64(toUnixTimestamp(quarter)) * 1000'

/** True when the quarter of an event tells its bucket; always without buckets. */
function beginWithQuarters({ buckets }: StatsQuestion): boolean {
  return buckets.every((start) => start % quarterMs === 0)
}

/** What of an event a metric is over. */
function measuredColumns(metric: Metric): readonly string[] {
  if (metric === 'event_count_by_type') return ['event_type']
  return metric in keyOf ? [keyOf[metric as keyof typeof keyOf]] : []
}

/** What the distinct counts are of. */
export const keyOf = {
  unique_users: 'user_key',
  unique_sessions: 'session_key',
  visitors: 'visitor_key',
} as const

/**
 * Events counted by quarter of an hour, which the projection `counts` keeps (packages/clickhouse/migrations); the parts
 * of quarters at the edges of the range are counted from events. Undefined where that does not answer the question: it
 * asks for more than counts by type, country and device, or has buckets that begin within a quarter.
 */
export function countRows(question: StatsQuestion): Rows | undefined {
  const { metric, start, end, groupBy, conditions, environment } = question
  const whole = wholeQuarters(question)
  const isByTime = isTimeUnit(groupBy)
  const dimension = groupBy === undefined || isByTime ? undefined : countedDimensions.find((name) => name === groupBy)
  const isCounted =
    (metric === 'event_count' || metric === 'event_count_by_type') &&
    (groupBy === undefined || isByTime || dimension !== undefined) &&
    beginWithQuarters(question) &&
    conditions.length === 0
  if (!isCounted || whole === undefined) return undefined

  const dimensions = new Set([...(metric === 'event_count_by_type' ? ['event_type' as const] : []), dimension])
  const keys = [...(isByTime ? ['toStartOfFifteenMinutes(timestamp)'] : []), ...dimensions].filter(
    (key) => key !== undefined,
  )
  const columns = [...(isByTime ? [`${keys[0] ?? ''} AS quarter`, ...keys.slice(1)] : keys), 'count() AS events']
  const matching = matchingOf(question)
  const counted = (...scope: string[]): string => `
    SELECT ${columns.join(', ')}
    FROM events
    WHERE ${[...scope, ...matching.conditions].join(' AND ')}
    ${keys.length === 0 ? '' : `GROUP BY ${keys.join(', ')}`}`
  const quarters = counted(
    'site_id = {site_id:String}',
    ...(environment === 'all' ? [] : ['environment = {environment:String}']),
    // By the projection's own expression, or it is not used.
    isWholeQuarter('toStartOfFifteenMinutes(timestamp)'),
  )
  const edges = counted(inScope(question), atTheEdges)
  const isAligned = start === whole.start && end === whole.end
  return {
    from: `FROM (${isAligned ? quarters : `${quarters} UNION ALL ${edges}`})`,
    time: quarterTime,
    group: dimension ?? `''`,
    count: 'sum(events)',
    params: { ...paramsOf(question), ...matching.params },
  }
}

const countedDimensions = ['event_type', 'country', 'device_type'] as const

/** How sessions are read. */
export interface SessionPlan {
  /** One of so many, chosen by the hash of its id; 1: all. */
  oneOf: number
  /** False: the statement fails with `longSession` when a session goes on after its 24 h. */
  mayBeLong: boolean
}

/** ClickHouse's code of a statement that failed because a session is longer than its plan says: throwIf's. */
export const longSession = 395

/**
 * One row per session that starts in the range (contract section 4 and section 10, "Stats"): its first event in the
 * range or the 24 h before it lies in the range, and its events are those of the 24 h from there, also beyond the range.
 * Its columns: started_ms, duration_ms, event_count, is_converted.
 *
 * Where sessions may go on after their 24 h, those that do are looked up first, to leave out what came later; most sites
 * have none, and then one reading does. Joining every event to its session's start, or a window function, takes 2–3
 * times as long.
 */
export function sessionRows(question: StatsQuestion, { oneOf, mayBeLong }: SessionPlan): Rows {
  const { groupBy, metric, targetEvent } = question
  const isConversion = metric === 'conversion_rate'
  const isByValue = groupBy !== undefined && !isTimeUnit(groupBy)
  const matching = matchingOf(question)
  const events = `${inScope(question, sessionWindowMs)} AND session_key != 0${oneOf === 1 ? '' : ` AND session_key % ${oneOf} = 0`}`
  const columns = [
    'toUnixTimestamp64Milli(min(timestamp)) AS started_ms',
    'toUnixTimestamp64Milli(max(timestamp)) - started_ms AS duration_ms',
    'count() AS event_count',
    ...(isConversion ? ['countIf(event_type = {target_event:String}) > 0 AS is_converted'] : []),
    ...(isByValue ? [`argMin(${groupOf(question)}, ${eventOrder}) AS first_group`] : []),
  ]
  return {
    from: `
FROM
(
    SELECT ${columns.join(', ')}
    FROM events
    ${matching.join}
    ${mayBeLong ? joinLongSessions(events) : ''}
    WHERE ${events} ${mayBeLong ? 'AND (closed_ms = 0 OR toUnixTimestamp64Milli(timestamp) < closed_ms)' : ''}
    GROUP BY session_key
    HAVING started_ms >= {start:Int64} AND started_ms < {end:Int64}
    ${mayBeLong ? '' : `AND throwIf(duration_ms >= ${sessionWindowMs}, 'a session goes on after its 24 hours') = 0`}
    ${matching.conditions.length === 0 ? '' : `AND countIf(${matching.conditions.join(' AND ')}) > 0`}
)`,
    time: 'started_ms',
    group: 'first_group',
    count: 'count()',
    params: {
      ...paramsOf(question),
      ...matching.params,
      ...(isConversion ? { target_event: targetEvent } : {}),
    },
  }
}

/**
 * The order of events: by time, then id. As one text, which takes aggregate functions half the time of a tuple; the number
 * added gives all times as many digits.
 */
const eventOrder = `concat(hex(toUInt64(toUnixTimestamp64Milli(timestamp)) + ${2 ** 52}), event_id)`

/** When the sessions that go on after their 24 h end, in Unix ms; 0 for the others. */
function joinLongSessions(events: string): string {
  return `
    LEFT JOIN
    (
        SELECT session_key, toUnixTimestamp64Milli(min(timestamp)) + ${sessionWindowMs} AS closed_ms
        FROM events
        WHERE ${events}
        GROUP BY session_key
        HAVING toUnixTimestamp64Milli(max(timestamp)) >= closed_ms
    ) AS long USING (session_key)`
}

function paramsOf(question: StatsQuestion): QueryParams {
  const { groupBy } = question
  return {
    ...scopeParams(question),
    ...(groupBy?.startsWith(propertyPrefix) ? { property: groupBy.slice(propertyPrefix.length) } : {}),
  }
}

const propertyPrefix = 'properties.'

/** What of an event the question groups by; `''` when that is time, or nothing. */
function groupOf({ groupBy }: StatsQuestion): string {
  if (groupBy === undefined || isTimeUnit(groupBy)) return `''`
  return isProperty(groupBy) ? 'properties[{property:String}]' : eventFieldSql[groupBy]
}

function isProperty(dimension: Dimension): dimension is `properties.${string}` {
  return dimension.startsWith(propertyPrefix)
}

/** What events must meet, and what must be joined on to tell. */
function matchingOf(question: StatsQuestion): {
  conditions: string[]
  join: string
  params: QueryParams
} {
  const { filters, conditions } = question
  const filter = conditionSql(conditions, { prefix: 'filter' })
  return {
    conditions: [
      ...Object.keys(filters).map((field) => `${field} = {${field}:String}`),
      ...(conditions.length === 0 ? [] : [filter.sql]),
    ],
    join: joinUsers(question, filter.userFields),
    params: { ...filters, ...filter.params },
  }
}
