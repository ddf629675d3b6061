import type { Metric } from '@sluice/contracts/stats'
import { isTimeUnit } from '../calendar.ts'
import type { SqlFragment, Statement } from '../clickhouse/query-runner.ts'
import { scopeParams, siteCondition } from '../event-scope.ts'
import { sessionWindowMs } from '../session-sql.ts'
import { timeSql } from '../time-sql.ts'
import { metricSql } from './metric-sql.ts'
import { eventRows, type RowSource, rowSourceOf } from './row-sources.ts'
import type { StatsPlan } from './spec.ts'

/** A row with the values of the plan's metrics; the totals of `bucketsStatement`. */
export interface MetricsRow extends Partial<Record<Metric, number>> {
  /** Not 0 when the value is an estimate of a distinct count; absent when it never is. */
  estimated?: number
}

/** The row of `rangeStatement`. */
export interface RangeRow extends MetricsRow, Partial<Record<`${Metric}_deviation`, number>> {
  /** Events or sessions that the values are computed from. */
  measured: number
}

/** The row of `convertedSessionsStatement`. */
export interface ConvertedSessionsRow {
  converted: number
}

/** A row of `bucketsStatement`. */
export interface BucketRow extends MetricsRow {
  /** The bucket's start, Unix ms. */
  start: number
}

/** The row of `distinctBucketsStatement`. */
export interface DistinctBucketsRow extends ValueRow {
  /** Starts of the buckets that have rows, Unix ms. */
  starts: number[]
  /** Their counts, in the same order. */
  counts: number[]
}

/** A row with the value of the plan's metric; the totals of the statements with groups by value. */
export interface ValueRow {
  value: number
  /** Not 0 when the value is an estimate of a distinct count; absent when it never is. */
  estimated?: number
}

/** The range that the rank of a group or type is in: skipped by the offset, listed by name, or beyond the limit. */
export type RankRange = 'skipped' | 'named' | 'other'

/** A row of `groupsStatement`. */
export interface GroupRow extends ValueRow {
  /** Groups without a name have one row for each range, with an empty `key`. */
  place: RankRange
  key: string
}

/** A row of `sampledGroupsStatement`. */
export interface SampledGroupRow {
  key: string
  /** Distinct keys of the sample. */
  sampled: number
}

/** A row of `typesStatement`. */
export interface TypeRow extends ValueRow {
  /** Start of the bucket (Unix ms), value of the group, or `''` without grouping. */
  part: number | string
  /** Types without a name have one row for each range, with an empty `type`. */
  place: RankRange
  type: string
}

/**
 * Selects the metrics over the range, in one row. For a sample of sessions, the row also has their standard deviations.
 */
export function rangeStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  return { sql: `SELECT ${metricColumns(plan, rows)}, ${rows.count} AS measured ${rows.from}`, params: rows.params }
}

/**
 * Selects how many sessions of the range have the target event, provided that no session lasts for 24 h. Such a session
 * starts in the range when it has no event in the 24 h before the range, and one before the range's end. Only events of
 * the target type are grouped.
 */
export function convertedSessionsStatement(plan: StatsPlan): Statement {
  const time = (edge: 'start' | 'end', shift = '') => timeSql(`{${edge}:Int64}${shift}`)
  const inTheDayBefore = (edge: 'start' | 'end') => `(
    SELECT session_key FROM events
    WHERE ${siteCondition(plan)} AND timestamp >= ${time(edge, ` - ${sessionWindowMs}`)} AND timestamp < ${time(edge)}
)`
  return {
    sql: `
SELECT uniqExact(session_key) AS converted
FROM events
WHERE ${siteCondition(plan)} AND timestamp >= ${time('start')} AND timestamp < ${time('end', ` + ${sessionWindowMs}`)}
    AND event_type = {target_event:String} AND session_key != 0
    AND session_key NOT IN ${inTheDayBefore('start')}
    AND (timestamp < ${time('end')} OR session_key IN ${inTheDayBefore('end')})`,
    params: { ...scopeParams(plan), target_event: plan.targetEvent },
  }
}

/** Selects the metrics in every bucket that has rows; the totals hold the metrics over the range. */
export function bucketsStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const bucket = bucketOf(plan, rows)
  return {
    sql: `
SELECT ${bucket.startOf('bucket')} AS start, ${metricColumns(plan, rows)}
${rows.from}
GROUP BY ${bucket.sql} AS bucket WITH TOTALS`,
    params: { ...rows.params, ...bucket.params },
  }
}

/**
 * Selects an exact distinct count in every bucket that has rows, and the count over the range, in one row. The count
 * over the range is the size of the union of all buckets' sets. ClickHouse merges sets in one thread, which for large
 * sets would double the time of the statement, so only small unions are computed. The size of a large union is
 * estimated from the keys that are a multiple of 16, if there are enough of them for a standard error of 0.4 %.
 */
export function distinctBucketsStatement(plan: StatsPlan, key: string): Statement {
  const rows = rowSourceOf(plan)
  const bucket = bucketOf(plan, rows)
  const [factor, sampleMin] = [16, 65_536]
  const sampled = 'uniqExactIfMerge(sampled_keys)'
  return {
    sql: `
SELECT
    groupArray(start) AS starts,
    groupArray(keys_count) AS counts,
    count() > 1 AND ${sampled} >= ${sampleMin} AS estimated,
    multiIf(count() = 1, any(keys_count), estimated, ${sampled} * ${factor}, uniqExactIfMergeIf(keys, is_united)) AS value
FROM
(
    SELECT
        ${bucket.startOf('bucket')} AS start,
        keys,
        sampled_keys,
        finalizeAggregation(keys) AS keys_count,
        ${sampled} OVER () < ${sampleMin} AS is_united
    FROM
    (
        SELECT
            ${bucket.sql} AS bucket,
            uniqExactIfState(${key}, ${key} != 0) AS keys,
            uniqExactIfState(${key}, ${key} % ${factor} = 0 AND ${key} != 0) AS sampled_keys
        ${rows.from}
        GROUP BY bucket
    )
)`,
    params: { ...rows.params, ...bucket.params },
  }
}

/** SQL of the columns of a MetricsRow. */
function metricColumns(plan: StatsPlan, rows: RowSource): string {
  const isSample = plan.sessions.sampleFactor !== 1
  const columns = plan.metrics.flatMap((metric) => {
    const { aggregate, estimated, deviation } = metricSql({ ...plan, metric }, rows)
    return [
      `${aggregate} AS ${metric}`,
      ...(estimated === undefined ? [] : [`${estimated} AS estimated`]),
      ...(isSample && deviation !== undefined ? [`${deviation} AS ${metric}_deviation`] : []),
    ]
  })
  return columns.join(', ')
}

/**
 * Selects the metric in the `limit` greatest groups by value after the first `offset`, sorted by value and key. Two
 * further rows hold the metric over the groups after these and over the groups before them; the totals hold the metric
 * over the range. One statement reads the rows once, so that all numbers are consistent.
 */
export function groupsStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const metric = metricSql(plan, rows)
  const order = `${metric.fromState} DESC, group`
  const { leading } = plan
  // Rank of a leading group in the list, from 1; 0 for all others.
  const number = `transform(toString(${rows.group}), {leading:Array(String)}, arrayEnumerate({leading:Array(String)}), 0)`
  const [grouped, group, rankRange] =
    leading === undefined
      ? [rows.group, 'toString(grouped)', rankRangeOf(`row_number() OVER (ORDER BY ${order})`)]
      : [
          number,
          '{leading:Array(String)}[grouped]',
          `if(grouped = 0, 'other', ${rankRangeOf(`row_number() OVER (ORDER BY grouped = 0, ${order})`)})`,
        ]
  const estimated = metric.estimatedFromStates === undefined ? '' : `, ${metric.estimatedFromStates} AS estimated`
  return {
    sql: `
SELECT place, if(place = 'named', group, '') AS key, ${metric.fromStates} AS value${estimated}
FROM
(
    SELECT ${group} AS group, part, ${rankRange} AS place
    FROM
    (
        SELECT ${grouped} AS grouped, ${metric.state} AS part
        ${rows.from}
        GROUP BY grouped
    )
)
GROUP BY place, key WITH TOTALS
ORDER BY ${namedFirst}, value DESC, key`,
    params: { ...rows.params, ...(leading && { leading: [...leading] }), limit: plan.limit, offset: plan.offset },
  }
}

/**
 * Selects the `groupsMax` groups by value with the most distinct keys in the sample, in descending order. The sample
 * contains the keys that are a multiple of `sampleFactor`.
 */
export function sampledGroupsStatement(
  plan: StatsPlan,
  key: string,
  { sampleFactor, groupsMax }: { sampleFactor: number; groupsMax: number },
): Statement {
  const rows = eventRows(plan, [`${key} % ${sampleFactor} = 0`, `${key} != 0`])
  return {
    sql: `
SELECT toString(${rows.group}) AS key, uniqExact(${key}) AS sampled
${rows.from}
GROUP BY key
ORDER BY sampled DESC
LIMIT {groups_max:UInt32}`,
    params: { ...rows.params, groups_max: groupsMax },
  }
}

/** SQL of the `RankRange` of a group or type, from the SQL of its rank, which begins at 1. */
function rankRangeOf(rank: string): string {
  return `multiIf(${rank} <= {offset:UInt32}, 'skipped', ${rank} <= {offset:UInt32} + {limit:UInt32}, 'named', 'other')`
}

/** SQL of the order of rows by their `RankRange`: those with names first. */
const namedFirst = `place != 'named'`

/**
 * Selects the number of events by type in every group of the plan. The `limit` most frequent types after the first
 * `offset` are listed by name; the types after these have one row, and the types before them another. Rows are sorted
 * by bucket, then by value, with the types without a name last. The totals hold the number of all events.
 */
export function typesStatement(plan: StatsPlan): Statement {
  const { groupBy, limit, offset } = plan
  const rows = rowSourceOf(plan)
  const groupSql = isTimeUnit(groupBy)
    ? startOf(bucketOf(plan, rows))
    : // Events grouped by type have no further group.
      { sql: groupBy === 'event_type' ? `''` : `toString(${rows.group})`, params: {} }
  return {
    sql: `
SELECT part, place, if(place = 'named', event, '') AS type, sum(events) AS value
FROM
(
    SELECT part, event, events, ${rankRangeOf('dense_rank() OVER (ORDER BY of_type DESC, event)')} AS place
    FROM
    (
        SELECT part, event, events, sum(events) OVER (PARTITION BY event) AS of_type
        FROM
        (
            SELECT ${groupSql.sql} AS part, toString(event_type) AS event, ${rows.count} AS events
            ${rows.from}
            GROUP BY part, event
        )
    )
)
GROUP BY part, place, type WITH TOTALS
ORDER BY ${isTimeUnit(groupBy) ? 'part, ' : ''}${namedFirst}, value DESC, type, part`,
    params: { ...rows.params, ...groupSql.params, limit, offset },
  }
}

/** How rows are assigned to buckets. */
interface Bucket extends SqlFragment {
  /** SQL of the start of a bucket, Unix ms, from the bucket's `sql`. */
  startOf: (bucket: string) => string
}

/**
 * SQL of a row's bucket: the last one whose start is not later than the row. Only the calendar of this process
 * determines where buckets begin. For evenly spaced starts, a division finds the bucket's number faster, and ClickHouse
 * groups numbers of 16 bits without hashing.
 */
function bucketOf({ buckets, end }: StatsPlan, { time }: RowSource): Bucket {
  const [first = 0, second = 0] = buckets
  const width = second - first
  // The last bucket may be longer than the others: a day on which clocks are put back has 25 hours.
  const isEven =
    end <= first + buckets.length * width && buckets.every((start, index) => start === first + index * width)
  if (!isEven) {
    const sql = `roundDown(${time}, {buckets:Array(Int64)})`
    return { sql, startOf: (bucket) => bucket, params: { buckets: [...buckets] } }
  }
  return {
    sql: `toUInt16(intDiv(${time} - {bucket_first:Int64}, {bucket_ms:Int64}))`,
    startOf: (bucket) => `{bucket_first:Int64} + ${bucket} * {bucket_ms:Int64}`,
    params: { bucket_first: first, bucket_ms: width },
  }
}

function startOf({ sql, startOf: start, params }: Bucket): SqlFragment {
  return { sql: start(sql), params }
}
