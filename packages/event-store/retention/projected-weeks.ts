import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { bucketStarts, type Range } from '../calendar.ts'

/** A week, in ms. */
export const weekMs = 7 * dayMs

/** Starts (Unix ms) of the last `count` calendar weeks of a zone, ascending; the last week is that of `now`. */
export function lastWeeks(now: number, count: number, timeZone: string): number[] {
  // Two weeks more than needed: changes of clocks make weeks longer than seven days, but not by that much.
  const starts = bucketStarts({ start: now - (count + 2) * weekMs, end: now + 1 }, 'week', timeZone)
  return starts.slice(-count)
}

/**
 * Weeks of UTC from Monday are numbered from that of 1 January 1970, a Thursday, as the projection `user_weeks` does.
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

/** Weeks of a zone that are read from the projection, except for events near their starts. */
export interface ProjectedWeeks {
  /** The range of each UTC week that lies within one week of the zone. */
  projection: 'head' | 'tail' | 'whole'
  /** The number of the UTC week of the first of them. */
  first: number
  /**
   * Ranges that are read from the events, because the projection has neither the week of their events nor the events'
   * order relative to `now`.
   */
  rawRanges: Range[]
}

/**
 * Plans the read of weeks, of which the last is that of `now`, from the projection. Returns undefined when some of the
 * zone's weeks begin early in UTC's week and some late, which happens where a zone crosses the date line, and when
 * events may be so late, up to `latest`, that one of the 64 bits stands for two weeks. All times are Unix ms.
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
  // A week that begins on UTC's Sunday belongs to the Monday after it.
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
    // The present week is read whole.
    rawRanges: edges
      .map((edge, index) => (index === edges.length - 1 ? { ...edge, end: now + 1 } : edge))
      .filter(({ start, end }) => start < end),
  }
}
