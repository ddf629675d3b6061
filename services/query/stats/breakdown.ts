import { bucketStarts, isTimeUnit, type TimeUnit } from './buckets.ts'
import type { Dimension, StatsQuestion } from './parameters.ts'
import type { GroupRow, TypeRow } from './sql.ts'

/** Stands for the groups beyond the limit. A type of this very name has an entry of its own besides. */
export const otherKey = '(other)'

/** One entry of `data.breakdown` (contract section 4). */
export interface BreakdownEntry {
  /** Unix ms: the bucket's start, for groups by value the range's. */
  timestamp: number
  /** The group's value; `''` when events have none. Absent in buckets. */
  key?: string
  country?: string
  device_type?: string
  event_type?: string
  value: number
}

/** One entry for each bucket of the range, those without a row being 0. */
export function bucketEntries(
  { start, end }: StatsQuestion,
  unit: TimeUnit,
  rows: readonly GroupRow[],
): BreakdownEntry[] {
  const values = new Map(rows.map(({ key, value }) => [Number(key), value]))
  return bucketStarts(start, end, unit).map((timestamp) => ({ timestamp, value: values.get(timestamp) ?? 0 }))
}

/** One entry for each row, in its order, and one for the rest when it was measured. */
export function valueEntries(
  { start }: StatsQuestion,
  dimension: Dimension,
  rows: readonly GroupRow[],
  rest: number | undefined,
): BreakdownEntry[] {
  const groups = rest === undefined ? rows : [...rows, { key: otherKey, value: rest }]
  return groups.map(({ key, value }) => ({ timestamp: start, key: String(key), [dimension]: String(key), value }))
}

/** One entry for each row: pairs without events are left out. */
export function typeEntries({ start, groupBy }: StatsQuestion, rows: readonly TypeRow[]): BreakdownEntry[] {
  return rows.map(({ part, named, type, value }) => {
    const key = named ? type : otherKey
    if (isTimeUnit(groupBy)) return { timestamp: Number(part), key, event_type: key, value }
    return {
      timestamp: start,
      key,
      event_type: key,
      ...(groupBy === undefined ? {} : { [groupBy]: String(part) }),
      value,
    }
  })
}
