import { dayMs, hourMs, weekMs } from '@sluice/contracts/time-units'
import { bucketStarts, type Range } from '../calendar.ts'

/** Starts (Unix ms) of the last `count` calendar weeks of a zone, ascending. The last week contains `now`. */
export function lastWeeks(now: number, count: number, timeZone: string): number[] {
  // Two weeks more than needed, because changes of clocks can make a week longer than seven days, but not by two weeks.
  const starts = bucketStarts({ start: now - (count + 2) * weekMs, end: now + 1 }, 'week', timeZone)
  return starts.slice(-count)
}

/**
 * UTC's weeks begin on Monday. They are numbered from the week of 1 January 1970, a Thursday, like those of the
 * projection `user_weeks`.
 */
export const epochDayOfWeekMs = 3 * dayMs
const utcWeekOf = (at: number): number => Math.floor((at + epochDayOfWeekMs) / weekMs)
const startOfUtcWeek = (week: number): number => week * weekMs - epochDayOfWeekMs

/**
 * The projection `user_weeks` has two ranges of each UTC week: Monday 0:00 to Sunday 10:00, and Monday 12:00 to the
 * end.
 */
export const headEndsMs = 6 * dayMs + 10 * hourMs
export const tailBeginsMs = 12 * hourMs

/** A plan for reading the weeks of a zone from the projection, except for events near the starts of weeks. */
export interface ProjectedWeeks {
  /** The range of each UTC week that lies within one week of the zone. */
  projection: 'head' | 'tail' | 'whole'
  /** Number of the UTC week that contains most of the first week of the zone. */
  first: number
  /**
   * Ranges that are read from the events. The projection does not tell to which week of the zone events in these ranges
   * belong, or whether they are before `now`.
   */
  rawRanges: Range[]
}

/**
 * Plans the read of weeks from the projection. The last week contains `now`. Returns undefined in two cases: some of
 * the zone's weeks begin early in UTC's week and some late, which happens where a zone crosses the date line; or events
 * may be so late, up to `latest`, that one of the 64 bits stands for two weeks. All times are Unix ms.
 */
export function projectedWeeks(
  starts: readonly number[],
  { now, latest }: { now: number; latest: number },
): ProjectedWeeks | undefined {
  const phases = starts.map((start) => start - startOfUtcWeek(utcWeekOf(start)))
  const isAligned = phases.every((phase) => phase === 0)
  const isEarly = phases.every((phase) => phase === 0 || phase >= headEndsMs)
  const isLate = phases.every((phase) => phase <= tailBeginsMs)
  if (!isEarly && !isLate) return undefined
  // A week of the zone that begins on UTC's Sunday gets the number of the UTC week from the next Monday.
  const numbers = starts.map((start) => utcWeekOf(isEarly ? start + weekMs - headEndsMs : start))
  const [first = 0] = numbers
  if (utcWeekOf(latest) - first >= 64) return undefined

  const [from = 0] = starts
  const edges = numbers.map((number) => {
    const monday = startOfUtcWeek(number)
    if (isAligned) return { start: monday, end: monday }
    const [start, end] = isEarly ? [monday - (weekMs - headEndsMs), monday] : [monday, monday + tailBeginsMs]
    return { start: Math.max(start, from), end }
  })
  return {
    projection: isAligned ? 'whole' : isEarly ? 'head' : 'tail',
    first,
    // The present week is read from the events completely.
    rawRanges: edges
      .map((edge, index) => (index === edges.length - 1 ? { ...edge, end: now + 1 } : edge))
      .filter(({ start, end }) => start < end),
  }
}
