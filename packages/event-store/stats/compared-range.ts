import type { Comparison } from '@sluice/contracts/stats'
import { type Range, zoned } from '../calendar.ts'

/**
 * The range that a range is compared with: the range of the same length that ends where it begins, or the range of the
 * same local dates and times a year before, where 29 February becomes 28 February.
 */
export function comparedRange({ start, end }: Range, comparison: Comparison, timeZone: string): Range {
  if (comparison === 'previous_period') return { start: start - (end - start), end: start }
  const earlier = { start: yearBefore(start, timeZone), end: endYearBefore(end, timeZone) }
  // A range from 28 February to the same time of 29 February would be empty a year before.
  return earlier.start < earlier.end ? earlier : { start: earlier.start, end: earlier.start + (end - start) }
}

function yearBefore(at: number, timeZone: string): number {
  return zoned(at, timeZone).subtract({ years: 1 }).epochMilliseconds
}

/** An end at the start of a day is the end of the day before, whose date is the one to move by a year. */
function endYearBefore(end: number, timeZone: string): number {
  const local = zoned(end, timeZone)
  if (local.startOfDay().epochMilliseconds !== end) return yearBefore(end, timeZone)
  const lastDate = local.toPlainDate().subtract({ days: 1 }).subtract({ years: 1 })
  return lastDate.add({ days: 1 }).toZonedDateTime(timeZone).epochMilliseconds
}
