import { isTimeUnit } from '../calendar.ts'
import type { StatsPlan } from './spec.ts'
import type { GroupRow, TypeRow } from './statements.ts'

/** Name of the groups beyond the limit together. A value of this very name has a group of its own. */
const otherGroups = '(other)'

/** The metric in one bucket, in one group by value, or of one event type in either. */
export interface StatsGroup {
  /** Start of the bucket, Unix ms; in groups by value that of the range. */
  start: number
  /** The value that the events of a group by value have in common, `''` for none; absent in buckets. */
  group?: string
  /** The event type, for `event_count_by_type` alone. */
  eventType?: string
  value: number
  /** Whether the value is an estimate of a distinct count. */
  isEstimated: boolean
}

/** One group for each bucket of the range by its exact value; buckets without one have the value 0. */
export function bucketGroups({ buckets }: StatsPlan, values: ReadonlyMap<number, number | undefined>): StatsGroup[] {
  return buckets.map((start) => ({ start, value: values.get(start) ?? 0, isEstimated: false }))
}

/** One group for each row that the offset does not skip, in the order of the rows. */
export function valueGroups({ start }: StatsPlan, rows: readonly GroupRow[]): StatsGroup[] {
  return rows
    .filter(({ place }) => place !== 'skipped')
    .map(({ place, key, value, estimated = 0 }) => ({
      start,
      group: place === 'named' ? key : otherGroups,
      value,
      isEstimated: estimated !== 0,
    }))
}

/** One group for each row that the offset does not skip; pairs of event type and group without events have no row. */
export function typeGroups({ start, groupBy }: StatsPlan, rows: readonly TypeRow[]): StatsGroup[] {
  const listed = rows.filter(({ place }) => place !== 'skipped')
  return listed.map(({ part, place, type, value }) => {
    const eventType = place === 'named' ? type : otherGroups
    if (isTimeUnit(groupBy)) return { start: Number(part), eventType, value, isEstimated: false }
    const isByOtherValue = groupBy !== undefined && groupBy !== 'event_type'
    return { start, ...(isByOtherValue ? { group: String(part) } : {}), eventType, value, isEstimated: false }
  })
}
