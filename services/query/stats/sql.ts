import type { QueryParams } from '@sluice/clickhouse/client'
import { bucketMs, hourMs, isTimeUnit, type TimeUnit } from './buckets.ts'
import type { Dimension, Metric, StatsQuestion } from './parameters.ts'

/** A SELECT on `events` with the values of its placeholders. */
export interface Statement {
  sql: string
  params: QueryParams
}

/** A row of `groupsStatement`: a bucket's start (Unix ms) or a dimension's value, and the metric there. */
export interface GroupRow {
  key: number | string
  value: number
}

/** A row of `typesStatement`. */
export interface TypeRow {
  /** Bucket start (Unix ms), a dimension's value, or `''` when the question has no grouping. */
  part: number | string
  /** False for the types beyond the limit, which share one row and have an empty `type`. */
  named: boolean
  type: string
  value: number
}

/** A session's length at most, and how far before a range it may have begun (contract section 4), in ms. */
const windowMs = 24 * hourMs

/** Over which rows a metric is taken, and its value there. */
interface Measure {
  rows: 'events' | 'sessions'
  value: string
}

/**
 * Percent with 2 decimals, rounded half up. Rounding is done here so that groups are sorted by the value that is shown;
 * both operands are integers, so that the order in which rows are read can't change an answer.
 */
const percent = (part: string): string => `if(count() = 0, 0, floor(10000 * ${part} / count() + 0.5) / 100)`

const measures: Record<Exclude<Metric, 'event_count_by_type'>, Measure> = {
  event_count: { rows: 'events', value: 'count()' },
  unique_users: { rows: 'events', value: 'uniqExactIf(user_key, user_key != 0)' },
  unique_sessions: { rows: 'events', value: 'uniqExactIf(session_key, session_key != 0)' },
  avg_session_duration: {
    rows: 'sessions',
    value: 'if(count() = 0, 0, floor(sum(duration_ms) / count() + 0.5) / 1000)',
  },
  bounce_rate: { rows: 'sessions', value: percent('countIf(event_count = 1)') },
  conversion_rate: { rows: 'sessions', value: percent('countIf(is_converted)') },
}

function measureOf(metric: Metric): Measure {
  if (metric === 'event_count_by_type') throw new TypeError('event_count_by_type is answered by typesStatement')
  return measures[metric]
}

/**
 * The metric in every group of the question, and of the whole range as totals; without a grouping, in one row.
 * Groups by value are sorted by value, then key, and at most `limit + 1`: the one more tells that there is a rest.
 */
export function groupsStatement(question: StatsQuestion): Statement {
  const { groupBy, limit } = question
  const { rows, value } = measureOf(question.metric)
  const source = sourceOf(question, rows)
  if (groupBy === undefined) return { sql: `SELECT ${value} AS value ${source}`, params: paramsOf(question) }
  const isByValue = !isTimeUnit(groupBy)
  return {
    sql: `
SELECT ${groupKey(groupBy, rows)} AS key, ${value} AS value
${source}
GROUP BY key WITH TOTALS
${isByValue ? 'ORDER BY value DESC, key LIMIT {limit:UInt32}' : ''}`,
    params: { ...paramsOf(question), ...(isByValue ? { limit: limit + 1 } : {}) },
  }
}

/** The metric over all groups but the named ones, in one row: distinct counts and shares can't be added up. */
export function restStatement(question: StatsQuestion, dimension: Dimension, named: readonly string[]): Statement {
  const { rows, value } = measureOf(question.metric)
  const isOther = `${groupKey(dimension, rows)} NOT IN {named:Array(String)}`
  return {
    sql: `SELECT ${value} AS value ${sourceOf(question, rows, isOther)}`,
    params: { ...paramsOf(question), named },
  }
}

/**
 * Events by type in every group of the question; the `limit` most frequent types by name, the others in one row.
 * Sorted by bucket, then by value with the others last. Totals hold the number of all events.
 */
export function typesStatement(question: StatsQuestion): Statement {
  const { groupBy } = question
  const fromEvents = sourceOf(question, 'events')
  return {
    sql: `
SELECT
    ${groupBy === undefined ? `''` : groupKey(groupBy, 'events')} AS part,
    event_type IN
    (
        SELECT event_type ${fromEvents}
        GROUP BY event_type ORDER BY count() DESC, event_type LIMIT {limit:UInt32}
    ) AS named,
    if(named, event_type, '') AS type,
    count() AS value
${fromEvents}
GROUP BY part, named, type WITH TOTALS
ORDER BY ${isTimeUnit(groupBy) ? 'part, ' : ''}named DESC, value DESC, type, part`,
    params: { ...paramsOf(question), limit: question.limit },
  }
}

/** What rows of either kind are grouped by: buckets as their start in Unix ms. */
function groupKey(groupBy: TimeUnit | Dimension, rows: Measure['rows']): string {
  if (!isTimeUnit(groupBy)) return rows === 'events' ? groupBy : `first_${groupBy}`
  const width = bucketMs(groupBy)
  const time = rows === 'events' ? 'toUnixTimestamp64Milli(timestamp)' : 'started_ms'
  return `intDiv(${time}, ${width}) * ${width}`
}

function paramsOf(question: StatsQuestion): QueryParams {
  const { siteId, start, end, environment, filters, targetEvent, metric } = question
  return {
    site_id: siteId,
    start,
    end,
    ...(environment === 'all' ? {} : { environment }),
    ...filters,
    ...(metric === 'conversion_rate' ? { target_event: targetEvent } : {}),
  }
}

/** FROM and WHERE: the range's events that match the filters, or the sessions that start in it; narrowed by `condition`. */
function sourceOf(question: StatsQuestion, rows: Measure['rows'], condition?: string): string {
  const conditions = [
    ...(rows === 'events' ? [visible(question, 0), ...matching(question.filters)] : []),
    ...(condition === undefined ? [] : [condition]),
  ]
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  return `FROM ${rows === 'events' ? 'events' : sessionsOf(question)} ${where}`
}

/**
 * One row per session that starts in the range (contract section 4 and section 10, "Stats"): its first event in the
 * range or the 24 h before it lies in the range, and its events are those of the 24 h from there, also beyond the range.
 *
 * Sessions that go on after their 24 h are few: they alone are looked up, to leave out what came later. Joining every
 * event to its session's start, or a window function, takes 2–3 times as long.
 */
function sessionsOf(question: StatsQuestion): string {
  const { groupBy, filters, metric } = question
  const events = `${visible(question, windowMs)} AND session_key != 0`
  const conditions = matching(filters)
  return `
(
    SELECT
        toUnixTimestamp64Milli(min(timestamp)) AS started_ms,
        toUnixTimestamp64Milli(max(timestamp)) - started_ms AS duration_ms,
        count() AS event_count
        ${metric === 'conversion_rate' ? ', countIf(event_type = {target_event:String}) > 0 AS is_converted' : ''}
        ${groupBy === undefined || isTimeUnit(groupBy) ? '' : `, argMin(${groupBy}, (timestamp, event_id)) AS first_${groupBy}`}
    FROM events
    LEFT JOIN
    (
        SELECT session_key, toUnixTimestamp64Milli(min(timestamp)) + ${windowMs} AS closed_ms
        FROM events
        WHERE ${events}
        GROUP BY session_key
        HAVING toUnixTimestamp64Milli(max(timestamp)) >= closed_ms
    ) AS long USING (session_key)
    WHERE ${events} AND (closed_ms = 0 OR toUnixTimestamp64Milli(timestamp) < closed_ms)
    GROUP BY session_key
    HAVING started_ms >= {start:Int64} AND started_ms < {end:Int64}
    ${conditions.length === 0 ? '' : `AND countIf(${conditions.join(' AND ')}) > 0`}
)`
}

/** The site's events of the asked environment in the range, widened by `marginMs` on both sides. */
function visible({ environment }: StatsQuestion, marginMs: number): string {
  // Times are compared as DateTime64, not as the integers they come as: only so does the primary key cut the range out.
  return [
    'site_id = {site_id:String}',
    `timestamp >= fromUnixTimestamp64Milli({start:Int64} - ${marginMs}, 'UTC')`,
    `timestamp < fromUnixTimestamp64Milli({end:Int64} + ${marginMs}, 'UTC')`,
    ...(environment === 'all' ? [] : ['environment = {environment:String}']),
  ].join(' AND ')
}

function matching(filters: StatsQuestion['filters']): string[] {
  return (Object.keys(filters) as Dimension[]).map((dimension) => `${dimension} = {${dimension}:String}`)
}
