import type { Frequency } from '@sluice/contracts/exports'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { zoned } from '../calendar.ts'

/** When a schedule makes its runs: at its anchor, and whole periods before and after it. */
export interface Recurrence {
  frequency: Frequency
  /** Unix ms. */
  anchor: number
  /** IANA name: days, weeks and months keep the anchor's time of day there. */
  timeZone: string
}

/** A time at which a schedule makes a run, and the time of the run before it; both in Unix ms. */
export interface Occurrence {
  at: number
  previous: number
}

/** Units of Temporal, and the usual length of a period in ms. */
const periods = {
  daily: { unit: 'days', usualMs: dayMs },
  weekly: { unit: 'weeks', usualMs: 7 * dayMs },
  monthly: { unit: 'months', usualMs: 30.44 * dayMs },
} as const

/**
 * The first occurrence after `after` (Unix ms). It may be the anchor or an occurrence before the anchor. Hours are
 * 3,600 s. When the zone's clocks skip the time of day, the occurrence is later by as much as the clocks are put
 * forward. When the clocks show it twice, the occurrence is at the first of the two. A month without the anchor's day
 * has the occurrence on its last day.
 */
export function nextOccurrence(recurrence: Recurrence, after: number): Occurrence {
  const { anchor, frequency } = recurrence
  const usualMs = frequency === 'hourly' ? hourMs : periods[frequency].usualMs
  let n = Math.floor((after - anchor) / usualMs)
  while (occurrence(recurrence, n) > after) n -= 1
  while (occurrence(recurrence, n + 1) <= after) n += 1
  return { at: occurrence(recurrence, n + 1), previous: occurrence(recurrence, n) }
}

/** The occurrence that is `n` periods after the anchor, or before it for a negative `n`. */
function occurrence({ frequency, anchor, timeZone }: Recurrence, n: number): number {
  if (frequency === 'hourly') return anchor + n * hourMs
  return zoned(anchor, timeZone).add({ [periods[frequency].unit]: n }).epochMilliseconds
}
