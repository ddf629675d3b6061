import type { Statement } from '../ask.ts'
import { isTimeUnit } from './buckets.ts'
import { measureOf, type PlannedQuestion, rowsOf } from './measures.ts'
import type { StatsQuestion } from './parameters.ts'
import type { Rows } from './rows.ts'

/** Totals of the statements with groups. */
export interface ValueRow {
  value: number
}

/** The row of `rangeStatement`. */
export interface RangeRow extends ValueRow {
  /** Events, or sessions, that were measured. */
  measured: number
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
  /** Bucket start (Unix ms), a dimension's value, or `''` when the question has no grouping. */
  part: number | string
  /** False for the types beyond the limit, which share one row and have an empty `type`. */
  named: boolean
  type: string
}

/** The metric over the range, in one row. */
export function rangeStatement(question: PlannedQuestion): Statement {
  const rows = rowsOf(question)
  return {
    sql: `SELECT ${measureOf(question, rows).whole} AS value, ${rows.count} AS measured ${rows.from}`,
    params: rows.params,
  }
}

/** The metric in every bucket that has rows, and of the range as totals. */
export function bucketsStatement(question: PlannedQuestion): Statement {
  const rows = rowsOf(question)
  const bucket = bucketOf(question, rows)
  return {
    sql: `
SELECT ${bucket.sql} AS start, ${measureOf(question, rows).whole} AS value
${rows.from}
GROUP BY start WITH TOTALS`,
    params: { ...rows.params, ...bucket.params },
  }
}

/**
 * The metric in the `limit` greatest groups by value, sorted by value, then key, then in one row over the rest; of the
 * range as totals. One statement reads the rows once, and its numbers are of one moment.
 */
export function groupsStatement(question: PlannedQuestion): Statement {
  const rows = rowsOf(question)
  const measure = measureOf(question, rows)
  return {
    sql: `
SELECT named, if(named, group, '') AS key, ${measure.ofParts} AS value
FROM
(
    SELECT group, part, row_number() OVER (ORDER BY ${measure.ofPart} DESC, group) <= {limit:UInt32} AS named
    FROM
    (
        SELECT toString(${rows.group}) AS group, ${measure.part} AS part
        ${rows.from}
        GROUP BY group
    )
)
GROUP BY named, key WITH TOTALS
ORDER BY named DESC, value DESC, key`,
    params: { ...rows.params, limit: question.limit },
  }
}

/**
 * Events by type in every group of the question; the `limit` most frequent types by name, the others in one row.
 * Sorted by bucket, then by value with the others last. Totals hold the number of all events.
 */
export function typesStatement(question: PlannedQuestion): Statement {
  const { groupBy, limit } = question
  const rows = rowsOf(question)
  const part = isTimeUnit(groupBy)
    ? bucketOf(question, rows)
    : // By type they are already.
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
            SELECT ${part.sql} AS part, toString(event_type) AS event, ${rows.count} AS events
            ${rows.from}
            GROUP BY part, event
        )
    )
)
GROUP BY part, named, type WITH TOTALS
ORDER BY ${isTimeUnit(groupBy) ? 'part, ' : ''}named DESC, value DESC, type, part`,
    params: { ...rows.params, ...part.params, limit },
  }
}

/**
 * The start of a row's bucket, Unix ms: the last of the given starts that is not later. So no clock but the one that
 * made the starts decides; where they are evenly spaced, a division tells the same sooner.
 */
function bucketOf({ buckets }: StatsQuestion, { time }: Rows): Statement {
  const [first = 0, second = 0] = buckets
  const width = second - first
  const isEven = buckets.length > 1 && buckets.every((start, index) => start === first + index * width)
  if (!isEven) return { sql: `roundDown(${time}, {buckets:Array(Int64)})`, params: { buckets: [...buckets] } }
  return {
    sql: `{bucket_first:Int64} + intDiv(${time} - {bucket_first:Int64}, {bucket_ms:Int64}) * {bucket_ms:Int64}`,
    params: { bucket_first: first, bucket_ms: width },
  }
}
