export const hourMs = 3_600_000

/** Length of each time unit in ms; buckets are whole multiples of it since 1970, so they start at full UTC hours and days. */
const unitsMs = { hour: hourMs, day: 24 * hourMs } as const

export type TimeUnit = keyof typeof unitsMs

/** More buckets than this are refused (contract section 4). */
export const bucketsMax = 5_000

export function isTimeUnit(grouping: string | undefined): grouping is TimeUnit {
  return grouping !== undefined && Object.hasOwn(unitsMs, grouping)
}

/** Length of a bucket in ms. */
export function bucketMs(unit: TimeUnit): number {
  return unitsMs[unit]
}

/** How many buckets the range `[start, end)` (Unix ms) touches. */
export function bucketCount(start: number, end: number, unit: TimeUnit): number {
  return Math.ceil(end / unitsMs[unit]) - Math.floor(start / unitsMs[unit])
}

/**
 * Starts (Unix ms) of all buckets that `[start, end)` touches, ascending. The first may start before the range and the
 * last may end after it: both then hold only a part.
 */
export function bucketStarts(start: number, end: number, unit: TimeUnit): number[] {
  const first = Math.floor(start / unitsMs[unit])
  return Array.from({ length: bucketCount(start, end, unit) }, (_, index) => (first + index) * unitsMs[unit])
}
