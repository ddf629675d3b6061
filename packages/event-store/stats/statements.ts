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

/** Where a group or a type stands: it is skipped by the offset, listed by name, or one of those beyond the limit. */
export type Place = 'skipped' | 'named' | 'other'

/** A row of `groupsStatement`. */
export interface GroupRow extends ValueRow {
  /** The groups that have no name share one row for each place and have an empty `key`. */
  place: Place
  key: string
}

/** A row of `typesStatement`. */
export interface TypeRow extends ValueRow {
  /** Start of the bucket (Unix ms), value of the group, or `''` without grouping. */
  part: number | string
  /** The types that have no name share one row for each place and have an empty `type`. */
  place: Place
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
 * Selects the metric in the `limit` greatest groups by value after the first `offset`, sorted by value and key, then in one
 * row over the groups after these, and in one over the groups before them; the totals hold the metric over the range. One
 * statement reads the rows once, so that its numbers agree.
 */
export function groupsStatement(plan: StatsPlan): Statement {
  const rows = rowSourceOf(plan)
  const metric = metricSql(plan, rows)
  return {
    sql: `
SELECT place, if(place = 'named', group, '') AS key, ${metric.fromStates} AS value
FROM
(
    SELECT group, part, ${placeOf(`row_number() OVER (ORDER BY ${metric.fromState} DESC, group)`)} AS place
    FROM
    (
        SELECT toString(${rows.group}) AS group, ${metric.state} AS part
        ${rows.from}
        GROUP BY group
    )
)
GROUP BY place, key WITH TOTALS
ORDER BY ${inPlace}, value DESC, key`,
    params: { ...rows.params, limit: plan.limit, offset: plan.offset },
  }
}

/** SQL of the place of a group or a type by the SQL of its rank, from 1. */
function placeOf(rank: string): string {
  return `multiIf(${rank} <= {offset:UInt32}, 'skipped', ${rank} <= {offset:UInt32} + {limit:UInt32}, 'named', 'other')`
}

/** SQL of the order in which the rows of a statement come by their places: by name first. */
const inPlace = `place != 'named'`

/**
 * Selects the number of events by type in every group of the plan: the `limit` most frequent types after the first `offset`
 * by name, those after these in one row, and those before them in another. Rows are sorted by bucket, then by value with the
 * types without a name last. The totals hold the number of all events.
 */
export function typesStatement(plan: StatsPlan): Statement {
  const { groupBy, limit, offset } = plan
  const rows = rowSourceOf(plan)
  const groupSql = isTimeUnit(groupBy)
    ? bucketOf(plan, rows)
    : // Events grouped by type have no further group.
      { sql: groupBy === 'event_type' ? `''` : `toString(${rows.group})`, params: {} }
  return {
    sql: `
SELECT part, place, if(place = 'named', event, '') AS type, sum(events) AS value
FROM
(
    SELECT part, event, events, ${placeOf('dense_rank() OVER (ORDER BY of_type DESC, event)')} AS place
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
ORDER BY ${isTimeUnit(groupBy) ? 'part, ' : ''}${inPlace}, value DESC, type, part`,
    params: { ...rows.params, ...groupSql.params, limit, offset },
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
