import type { Comparison } from '@sluice/contracts/stats'
import { type Range, zoned } from './buckets.ts'

/**
 * The range that a range is compared with: the one of the same length that ends where it begins, or the same local
 * dates and times a year before, 29 February becoming 28.
 */
export function comparedRange({ start, end }: Range, comparison: Comparison, timeZone: string): Range {
  if (comparison === 'previous_period') return { start: start - (end - start), end: start }
  const earlier = { start: yearBefore(start, timeZone), end: endYearBefore(end, timeZone) }
  // From one time of 28 February to the same of 29 February nothing would be left.
  return earlier.start < earlier.end ? earlier : { start: earlier.start, end: earlier.start + (end - start) }
}

function yearBefore(at: number, timeZone: string): number {
  return zoned(at, timeZone).subtract({ years: 1 }).epochMilliseconds
}

/** An end at the start of a day is the end of the day before: that is the date whose year changes. */
function endYearBefore(end: number, timeZone: string): number {
  const local = zoned(end, timeZone)
  if (local.startOfDay().epochMilliseconds !== end) return yearBefore(end, timeZone)
  const lastDate = local.toPlainDate().subtract({ days: 1 }).subtract({ years: 1 })
  return lastDate.add({ days: 1 }).toZonedDateTime(timeZone).epochMilliseconds
}
