import { isTimeUnit } from '../calendar.ts'
import type { Statement } from '../query-runner.ts'
import { metricSql, rowSourceOf } from './metric-sql.ts'
import type { RowSource } from './row-sources.ts'
import type { StatsPlan } from './spec.ts'

/** A row with a value; the totals of the statements with groups. */
export interface ValueRow {
  value: number
}

/** The row of `rangeStatement`. */
export interface RangeRow extends ValueRow {
  /** Events or sessions that the value is computed from. */
  measured: number
  /** Not 0 when the value is an estimate of a distinct count; absent when it never is. */
  estimated?: number
  /** Standard deviation of the sessions' durations or shares, in the unit of the value; present in samples of sessions. */
  deviation?: number
}

/** A row of `bucketsStatement`. */
export interface BucketRow extends ValueRow {
  /** The bucket's start, Unix ms. */
  start: number
}

/** A row of `groupsStatement`. */
export interface GroupRow extends ValueRow {
  /** False for the groups beyond the limit, which share one row and have an empty `key`. */
  named: boolean
  key: string
}

/** A row of `typesStatement`. */
export interface TypeRow extends ValueRow {
  /** Start of the bucket (Unix ms), value of the group, or `''` without grouping. */
  part: number | string
  /** False for the types beyond the limit, which share one row and have an empty `type`. */
  named: boolean
  type: string
}

/** Selects the metric over the range, in one row. */
export function rangeStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const { aggregate, estimated, deviation } = metricSql(plan, rows)
  const columns = [
    `${aggregate} AS value`,
    `${rows.count} AS measured`,
    ...(estimated === undefined ? [] : [`${estimated} AS estimated`]),
    ...(deviation === undefined || plan.sessions.sampleFactor === 1 ? [] : [`${deviation} AS deviation`]),
  ]
  return { sql: `SELECT ${columns.join(', ')} ${rows.from}`, params: rows.params }
}

/** Selects the metric in every bucket that has rows; the totals hold the metric over the range. */
export function bucketsStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const bucket = bucketOf(plan, rows)
  return {
    sql: `
SELECT ${bucket.sql} AS start, ${metricSql(plan, rows).aggregate} AS value
${rows.from}
GROUP BY start WITH TOTALS`,
    params: { ...rows.params, ...bucket.params },
  }
}

/**
 * Selects the metric in the `limit` greatest groups by value, sorted by value and key, then in one row over the other
 * groups; the totals hold the metric over the range. One statement reads the rows once, so that its numbers agree.
 */
export function groupsStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const metric = metricSql(plan, rows)
  return {
    sql: `
SELECT named, if(named, group, '') AS key, ${metric.fromStates} AS value
FROM
(
    SELECT group, part, row_number() OVER (ORDER BY ${metric.fromState} DESC, group) <= {limit:UInt32} AS named
    FROM
    (
        SELECT toString(${rows.group}) AS group, ${metric.state} AS part
        ${rows.from}
        GROUP BY group
    )
)
GROUP BY named, key WITH TOTALS
ORDER BY named DESC, value DESC, key`,
    params: { ...rows.params, limit: plan.limit },
  }
}

/**
 * Selects the number of events by type in every group of the plan: the `limit` most frequent types by name, the others in
 * one row. Rows are sorted by bucket, then by value with the other types last. The totals hold the number of all events.
 */
export function typesStatement(plan: StatsPlan): Statement {
  const { groupBy, limit } = plan
  const rows = rowSourceOf(plan)
  const groupSql = isTimeUnit(groupBy)
    ? bucketOf(plan, rows)
    : // Events grouped by type have no further group.
      { sql: groupBy === 'event_type' ? `''` : `toString(${rows.group})`, params: {} }
  return {
    sql: `
SELECT part, named, if(named, event, '') AS type, sum(events) AS value
FROM
(
    SELECT part, event, events, dense_rank() OVER (ORDER BY of_type DESC, event) <= {limit:UInt32} AS named
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
GROUP BY part, named, type WITH TOTALS
ORDER BY ${isTimeUnit(groupBy) ? 'part, ' : ''}named DESC, value DESC, type, part`,
    params: { ...rows.params, ...groupSql.params, limit },
  }
}

/**
 * SQL of the start of a row's bucket, Unix ms: the last start that is not later than the row. So the calendar of this
 * process alone decides about buckets; of evenly spaced starts, a division finds it faster.
 */
function bucketOf({ buckets, end }: StatsPlan, { time }: RowSource): Statement {
  const [first = 0, second = 0] = buckets
  const width = second - first
  // The last bucket may be longer than the others: a day on which clocks are put back has 25 hours.
  const isEven =
    end <= first + buckets.length * width && buckets.every((start, index) => start === first + index * width)
  if (!isEven) return { sql: `roundDown(${time}, {buckets:Array(Int64)})`, params: { buckets: [...buckets] } }
  return {
    sql: `{bucket_first:Int64} + intDiv(${time} - {bucket_first:Int64}, {bucket_ms:Int64}) * {bucket_ms:Int64}`,
    params: { bucket_first: first, bucket_ms: width },
  }
}
