import { dayMs } from '@sluice/contracts/time-units'
import type { SummaryInterval } from '@sluice/contracts/webhooks'
import { bucketStarts, type Range } from '@sluice/event-store/calendar'

/** After an outage this many summaries follow; older ones are left out. */
export const missedMax = 48

/** The longest day of a zone is 25 h, and the one after an hour's end begins within two of them. */
const lookAheadMs = 3 * dayMs
const units = { '1h': 'hour', '1d': 'day' } as const

/** Times are Unix ms. */
export interface PeriodSpec {
  interval: SummaryInterval
  timeZone: string
  /** Where the next period starts; null: with the period that holds `since`. */
  nextStart: number | null
  since: number
  now: number
}

/** The periods that have ended and have no summary yet, the oldest first, and when the one after them ends. */
export interface DuePeriods {
  ended: readonly Range[]
  /** How many older ones were left out. */
  leftOut: number
  nextEnd: number
}

/**
 * Hours and days begin and end by the clocks of the time zone. A day may have 23 or 25 hours, and an hour that the
 * clocks show twice is two hours. If the time zone of the site was changed, the first period is the first that begins
 * after the last one ended.
 */
export function duePeriods({ interval, timeZone, nextStart, since, now }: PeriodSpec): DuePeriods {
  const from = nextStart ?? since
  const starts = bucketStarts(
    { start: from, end: Math.max(from, now) + lookAheadMs },
    units[interval],
    timeZone,
  ).filter((start) => nextStart === null || start >= nextStart)
  const periods = starts.slice(1).map((end, n) => ({ start: starts[n] ?? end, end }))
  const ended = periods.filter(({ end }) => end <= now)
  const leftOut = Math.max(0, ended.length - missedMax)
  return { ended: ended.slice(leftOut), leftOut, nextEnd: periods[ended.length]?.end ?? now + lookAheadMs }
}
