import type { Dimension } from '@sluice/contracts/stats'
import { isTimeUnit } from './buckets.ts'
import type { StatsQuestion } from './parameters.ts'
import type { BucketRow, GroupRow, TypeRow } from './sql.ts'

/** Stands for the groups beyond the limit. A value of this very name has an entry of its own besides. */
const otherKey = '(other)'

/** One entry of `data.breakdown` (contract section 4). Groups by value have a field named by their dimension besides. */
export interface BreakdownEntry extends Partial<Record<Dimension, string>> {
  /** Unix ms: the bucket's start, for groups by value the range's. */
  timestamp: number
  /** The group's value; `''` when events have none. Absent in buckets. */
  key?: string
  value: number
}

/** One entry for each bucket of the range, those without a row being 0. */
export function bucketEntries({ buckets }: StatsQuestion, rows: readonly BucketRow[]): BreakdownEntry[] {
  const values = new Map(rows.map(({ start, value }) => [start, value]))
  return buckets.map((timestamp) => ({ timestamp, value: values.get(timestamp) ?? 0 }))
}

/** One entry for each row, in its order. */
export function groupEntries(
  { start }: StatsQuestion,
  dimension: Dimension,
  rows: readonly GroupRow[],
): BreakdownEntry[] {
  return rows.map(({ named, key: group, value }) => {
    const key = named ? group : otherKey
    return { timestamp: start, key, ...valueOf(dimension, key), value }
  })
}

/** One entry for each row: pairs without events are left out. */
export function typeEntries({ start, groupBy }: StatsQuestion, rows: readonly TypeRow[]): BreakdownEntry[] {
  return rows.map(({ part, named, type, value }) => {
    const key = named ? type : otherKey
    if (isTimeUnit(groupBy)) return { timestamp: Number(part), key, event_type: key, value }
    return {
      timestamp: start,
      key,
      ...(groupBy === undefined ? {} : valueOf(groupBy, String(part))),
      event_type: key,
      value,
    }
  })
}

function valueOf(dimension: Dimension, value: string): Partial<Record<Dimension, string>> {
  return { [dimension]: value }
}
