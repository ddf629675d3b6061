import type { Temporal } from 'temporal-polyfill'
import type { Comparison } from '@sluice/contracts/stats'
import { type Range, zoned } from '../calendar.ts'

/**
 * The range that a range is compared with. It is the range of the same length directly before, or the range with the
 * same local dates and times a year earlier, where 29 February becomes 28 February.
 */
export function comparedRange({ start, end }: Range, comparison: Comparison, timeZone: string): Range {
  if (comparison === 'previous_period') return { start: start - (end - start), end: start }
  const earlier = { start: yearBefore(start, timeZone), end: endYearBefore(end, timeZone) }
  // Both 28 and 29 February become 28 February, so a range from one to the same time of the other would be empty.
  return earlier.start < earlier.end ? earlier : { start: earlier.start, end: earlier.start + (end - start) }
}

/** The start of a day, which is 01:00 where clocks go forward at midnight, becomes the start of a day. */
function yearBefore(at: number, timeZone: string): number {
  const local = zoned(at, timeZone)
  return isStartOfDay(local)
    ? startOfDate(local.toPlainDate().subtract({ years: 1 }), timeZone)
    : local.subtract({ years: 1 }).epochMilliseconds
}

/** An end at the start of a day belongs to the previous date. That date is moved by a year. */
function endYearBefore(end: number, timeZone: string): number {
  const local = zoned(end, timeZone)
  if (!isStartOfDay(local)) return yearBefore(end, timeZone)
  const lastDate = local.toPlainDate().subtract({ days: 1 }).subtract({ years: 1 })
  return startOfDate(lastDate.add({ days: 1 }), timeZone)
}

function isStartOfDay(local: Temporal.ZonedDateTime): boolean {
  return local.startOfDay().equals(local)
}

function startOfDate(date: Temporal.PlainDate, timeZone: string): number {
  return date.toZonedDateTime(timeZone).epochMilliseconds
}
