import { Temporal } from 'temporal-polyfill'
import { canonicalTimeZone } from '@sluice/contracts/sites'
import { statsLimits, type TimeUnit, timeUnits } from '@sluice/contracts/stats'

const hourMs = 3_600_000

const dayMs = 24 * hourMs

/** Greatest length of a bucket in ms, with every change of a zone's clocks. */
const longestMs: Readonly<Record<TimeUnit, number>> = {
  hour: hourMs,
  day: 2 * dayMs,
  week: 9 * dayMs,
  month: 33 * dayMs,
}

export function isTimeUnit(grouping: string | undefined): grouping is TimeUnit {
  return (timeUnits as readonly (string | undefined)[]).includes(grouping)
}

/** True for ranges that certainly have more buckets than an answer may hold, so that the buckets need not be computed. */
export function exceedsBucketLimit({ start, end }: Range, unit: TimeUnit): boolean {
  return (end - start) / longestMs[unit] > statsLimits.bucketsMax
}

/** `[start, end)` in Unix ms. */
export interface Range {
  start: number
  end: number
}

/**
 * Starts (Unix ms) of all buckets that overlap the range, ascending. The first bucket may start before the range and the
 * last one may end after it.
 *
 * A day begins when its date first appears on the zone's clocks: a skipped day has no bucket, and a day without a
 * midnight begins later. An hour ends when the clocks show another hour or are put back, so that two hours of the same
 * name have two buckets.
 */
export function bucketStarts(range: Range, unit: TimeUnit, timeZone: string): number[] {
  const starts = unit === 'hour' ? hourStarts(range, timeZone) : dateStarts(range, unit, timeZone)
  // The first date may have ended: it appears again after clocks were put back across midnight.
  return starts.slice(starts.findLastIndex((start) => start <= range.start))
}

const step = { day: { days: 1 }, week: { weeks: 1 }, month: { months: 1 } } as const

function dateStarts({ start, end }: Range, unit: Exclude<TimeUnit, 'hour'>, timeZone: string): number[] {
  const starts: number[] = []
  let date = firstDate(zoned(start, timeZone).toPlainDate(), unit)
  for (;;) {
    const at = date.toZonedDateTime(timeZone).epochMilliseconds
    if (at >= end) return starts
    // A skipped date begins at the same time as the next one.
    if (at === starts.at(-1)) starts.pop()
    starts.push(at)
    date = date.add(step[unit])
  }
}

/** The Monday of the date's week, the first day of its month, or the date itself. */
function firstDate(date: Temporal.PlainDate, unit: Exclude<TimeUnit, 'hour'>): Temporal.PlainDate {
  switch (unit) {
    case 'day':
      return date
    case 'week':
      return date.subtract({ days: date.dayOfWeek - 1 })
    case 'month':
      return date.with({ day: 1 })
  }
}

/** Between two changes of its clocks, a zone's hours begin every 3,600 s. */
function hourStarts({ start, end }: Range, timeZone: string): number[] {
  const starts: number[] = []
  let from = start - hourMs
  let before: number | undefined
  while (from < end) {
    const now = zoned(from, timeZone)
    const offset = now.offsetNanoseconds / 1e6
    const change = now.getTimeZoneTransition('next')?.epochMilliseconds ?? Infinity
    const sinceHour = modulo(from + offset, hourMs)
    const isChange = before !== undefined && (offset < before || isAnotherHour(from, before, offset))
    if (sinceHour === 0 || isChange) starts.push(from)
    for (let at = from + hourMs - sinceHour; at < Math.min(change, end); at += hourMs) starts.push(at)
    before = offset
    from = change
  }
  return starts
}

/** Whether clocks that change at `at` (Unix ms) from one offset to another show a different hour than just before. */
function isAnotherHour(at: number, before: number, after: number): boolean {
  return Math.floor((at - 1 + before) / hourMs) !== Math.floor((at + after) / hourMs)
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by
}

/** A moment (Unix ms) in a time zone. */
export function zoned(at: number, timeZone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
}

/** The zone's name in its standard case; abbreviations that only Intl knows (`PST`) become names. Throws for unknown zones. */
export function timeZoneId(name: string): string {
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId
  } catch (error) {
    const canonical = canonicalTimeZone(name)
    if (canonical === undefined) throw error
    return canonical
  }
}
