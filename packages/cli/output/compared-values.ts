import { Temporal } from 'temporal-polyfill'
import { type BreakdownEntry, isSessionMetric, type StatsResult } from '@sluice/contracts/stats'
import { dayMs, weekMs } from '@sluice/contracts/time-units'

/** The value that an entry of the breakdown, at a place of it, is compared with; undefined when there is none. */
export type ComparedValue = (entry: BreakdownEntry, at: number) => number | undefined

/**
 * Matches the entries of a breakdown with those of the range that it is compared with. `comparison` and `limit`, the
 * number of groups that may be named, are those of the request.
 */
export function comparedValues(
  data: StatsResult,
  { comparison, limit }: { comparison: string | undefined; limit: number },
): ComparedValue {
  const [entries, compared] = [data.breakdown ?? [], data.compare?.breakdown ?? []]
  // A mean of no sessions is no number, where a count of nothing is 0.
  if (entries[0]?.key !== undefined)
    return groupsBefore(entries, compared, { limit, absent: isSessionMetric(data.metric) ? undefined : 0 })
  if (comparison === 'previous_year') {
    if (data.group_by === 'day') return bucketsOfYearBefore(compared, dayMs, data.timezone)
    if (data.group_by === 'week') return bucketsOfYearBefore(compared, weekMs, data.timezone)
    return (_, at) => compared[at]?.value
  }
  // The previous period ends at a bucket's start when the range begins at one, but may begin within a further bucket:
  // an hour earlier after clocks went forward, or within a longer month.
  const surplus = Math.max(0, compared.length - entries.length)
  return (_, at) => compared[at + surplus]?.value
}

/** Dates lie on other weekdays a year earlier, and a leap day shifts the places of all days after it. */
function bucketsOfYearBefore(compared: readonly BreakdownEntry[], unitMs: number, timeZone: string): ComparedValue {
  return ({ timestamp }) => {
    const yearBefore = Temporal.Instant.fromEpochMilliseconds(timestamp)
      .toZonedDateTimeISO(timeZone)
      .subtract({ years: 1 }).epochMilliseconds
    return compared.find((bucket) => Math.abs(bucket.timestamp - yearBefore) <= unitMs / 2)?.value
  }
}

/**
 * Only the entry behind `limit` named groups combines all others; a group may have the same key. A group without an
 * entry has the value `absent`, or is one of the combined groups.
 */
function groupsBefore(
  entries: readonly BreakdownEntry[],
  compared: readonly BreakdownEntry[],
  { limit, absent }: { limit: number; absent: number | undefined },
): ComparedValue {
  const named = new Map(compared.slice(0, limit).map(({ key, value }) => [key, value]))
  const keys = entries.slice(0, limit).map(({ key }) => key)
  const others = compared[limit]?.value
  // The others of different groups are different sets, whose values can't be compared.
  const hasSameOthers = keys.length === named.size && keys.every((key) => named.has(key))
  return ({ key }, at) => {
    if (at >= limit) return hasSameOthers ? (others ?? absent) : undefined
    return named.get(key) ?? (others === undefined ? absent : undefined)
  }
}
