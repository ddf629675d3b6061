import { bucketStarts, type Range } from '../stats/buckets.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
export const weekMs = 7 * dayMs

/** Starts (Unix ms) of the last calendar weeks of a zone, ascending; the last is that of `now`. */
export function lastWeeks(now: number, count: number, timeZone: string): number[] {
  // A week that a zone's clocks make longer than seven days can't use up two more.
  const starts = bucketStarts({ start: now - (count + 2) * weekMs, end: now + 1 }, 'week', timeZone)
  return starts.slice(-count)
}

/** Weeks of UTC from Monday are numbered from that of 1 January 1970, a Thursday, as the projection `user_weeks` does. */
const epochDayOfWeekMs = 3 * dayMs
const utcWeekOf = (at: number): number => Math.floor((at + epochDayOfWeekMs) / weekMs)
const startOfUtcWeek = (week: number): number => week * weekMs - epochDayOfWeekMs

/** What the projection `user_weeks` keeps of a UTC week: from Monday to Sunday 10:00, and from Monday 12:00 to its end. */
const headEndsMs = 6 * dayMs + 10 * hourMs
const tailBeginsMs = 12 * hourMs

/** Weeks of a zone that the projection knows, but for events near to where they begin. */
export interface KeptWeeks {
  /** What of each UTC week lies in one week of the zone. */
  kept: 'head' | 'tail' | 'whole'
  /** The number of the UTC week of the first of them. */
  first: number
  /** Where events must be looked at: what is kept does not tell which week they are of, or whether they are later. */
  unkept: Range[]
}

/**
 * What of weeks, the last being that of `now`, is kept. Undefined when the zone's weeks cut UTC's now early and now late,
 * which happens where a zone crosses the date line, and when events may be so late, up to `latest`, that a bit of the 64
 * stands for two of them. All times are Unix ms.
 */
export function keptWeeks(
  starts: readonly number[],
  { now, latest }: { now: number; latest: number },
): KeptWeeks | undefined {
  const phases = starts.map((start) => start - startOfUtcWeek(utcWeekOf(start)))
  const isAligned = phases.every((phase) => phase === 0)
  const isEarly = phases.every((phase) => phase === 0 || phase >= headEndsMs)
  const isLate = phases.every((phase) => phase <= tailBeginsMs)
  if (!isEarly && !isLate) return undefined
  // A week that begins on UTC's Sunday is that of the Monday after it.
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
    kept: isAligned ? 'whole' : isEarly ? 'head' : 'tail',
    first,
    // Of the present week everything.
    unkept: edges
      .map((edge, index) => (index === edges.length - 1 ? { ...edge, end: now + 1 } : edge))
      .filter(({ start, end }) => start < end),
  }
}
