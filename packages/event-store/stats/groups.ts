import { isTimeUnit } from '../calendar.ts'
import type { StatsPlan } from './spec.ts'
import type { GroupRow, TypeRow } from './statements.ts'

/**
 * Name of the combined groups beyond the limit. If a property has this text as its value, that value still has its own
 * group.
 */
const otherGroups = '(other)'

/**
 * The value of the metric in one bucket or in one group by value; for `event_count_by_type`, of one event type there.
 */
export interface StatsGroup {
  /** Start of the bucket, Unix ms. For a group by value, the start of the range. */
  start: number
  /** The value that the events of a group by value share, `''` for none. Absent for buckets. */
  group?: string
  /** The event type; only present for `event_count_by_type`. */
  eventType?: string
  value: number
  /** Whether the value is an estimate of a distinct count. */
  isEstimated: boolean
}

/**
 * One group for each bucket of the range, with its exact value. Buckets that are missing in `values` get the value 0.
 */
export function bucketGroups({ buckets }: StatsPlan, values: ReadonlyMap<number, number | undefined>): StatsGroup[] {
  return buckets.map((start) => ({ start, value: values.get(start) ?? 0, isEstimated: false }))
}

/** One group for each row, in their order. Rows that the offset skips have no group. */
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

/** One group for each row that the offset does not skip. A pair of event type and group without events has no row. */
export function typeGroups({ start, groupBy }: StatsPlan, rows: readonly TypeRow[]): StatsGroup[] {
  const listed = rows.filter(({ place }) => place !== 'skipped')
  return listed.map(({ part, place, type, value }) => {
    const eventType = place === 'named' ? type : otherGroups
    if (isTimeUnit(groupBy)) return { start: Number(part), eventType, value, isEstimated: false }
    const isByOtherValue = groupBy !== undefined && groupBy !== 'event_type'
    return { start, ...(isByOtherValue ? { group: String(part) } : {}), eventType, value, isEstimated: false }
  })
}
