import { Temporal } from 'temporal-polyfill'
import { statsLimits, type TimeUnit, timeUnits } from '@sluice/contracts/stats'
import { dayMs, hourMs } from '@sluice/contracts/time-units'

/** Units that follow the clocks of a zone and not its dates, with the length of their buckets in ms. */
const clockUnits = { minute: 60_000, hour: hourMs } as const

type ClockUnit = keyof typeof clockUnits

type DateUnit = Exclude<TimeUnit, ClockUnit>

/** Length of a bucket in ms while a zone's clocks are not changed, the longest one of a month. */
const lengthMs: Readonly<Record<TimeUnit, number>> = {
  ...clockUnits,
  day: dayMs,
  week: 7 * dayMs,
  month: 31 * dayMs,
}

/**
 * Upper bound, in ms, of the time that the changes of a zone's clocks take from the dates of a range: each end moves by
 * a day at most, and at most one date is skipped.
 */
const changesMsMax = 4 * dayMs

/** Whether a grouping is by time, and not by the value of a dimension. */
export function isTimeUnit(grouping: string | undefined): grouping is TimeUnit {
  return (timeUnits as readonly (string | undefined)[]).includes(grouping)
}

/**
 * True for ranges that are too long for a grouping by minutes, or that certainly have more buckets than an answer may
 * hold. The buckets of such ranges need not be computed.
 */
export function exceedsBucketLimit({ start, end }: Range, unit: TimeUnit): boolean {
  if (unit === 'minute' && end - start > statsLimits.minutesHoursMax * hourMs) return true
  const changesMs = isClockUnit(unit) ? 0 : changesMsMax
  return (end - start - changesMs) / lengthMs[unit] > statsLimits.bucketsMax
}

/** `[start, end)` in Unix ms. */
export interface Range {
  start: number
  end: number
}

/**
 * Starts (Unix ms) of all buckets that overlap the range, ascending. The first bucket may start before the range and
 * the last one may end after it.
 *
 * A day begins when the zone's clocks show its date for the first time. A date that the zone skips has no bucket, and a
 * day without a midnight begins later. An hour or a minute ends when the clocks show another one or are put back, so an
 * hour that the clocks show twice has two buckets.
 */
export function bucketStarts(range: Range, unit: TimeUnit, timeZone: string): number[] {
  const starts = isClockUnit(unit) ? clockStarts(range, clockUnits[unit], timeZone) : dateStarts(range, unit, timeZone)
  // The first date may have ended before the range: clocks that are put back across midnight show a date again.
  return starts.slice(starts.findLastIndex((start) => start <= range.start))
}

function isClockUnit(unit: TimeUnit): unit is ClockUnit {
  return unit in clockUnits
}

const step = { day: { days: 1 }, week: { weeks: 1 }, month: { months: 1 } } as const

function dateStarts({ start, end }: Range, unit: DateUnit, timeZone: string): number[] {
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
function firstDate(date: Temporal.PlainDate, unit: DateUnit): Temporal.PlainDate {
  switch (unit) {
    case 'day':
      return date
    case 'week':
      return date.subtract({ days: date.dayOfWeek - 1 })
    case 'month':
      return date.with({ day: 1 })
  }
}

/**
 * Between two changes of a zone's clocks, hours begin every 3,600 s and minutes every 60 s. `lengthMs` is this length.
 */
function clockStarts({ start, end }: Range, lengthMs: number, timeZone: string): number[] {
  const starts: number[] = []
  let from = start - lengthMs
  let before: number | undefined
  while (from < end) {
    const now = zoned(from, timeZone)
    const offset = now.offsetNanoseconds / 1e6
    const change = now.getTimeZoneTransition('next')?.epochMilliseconds ?? Infinity
    const sinceStart = modulo(from + offset, lengthMs)
    const isChange = before !== undefined && (offset < before || showsAnother(lengthMs, from, before, offset))
    if (sinceStart === 0 || isChange) starts.push(from)
    for (let at = from + lengthMs - sinceStart; at < Math.min(change, end); at += lengthMs) starts.push(at)
    before = offset
    from = change
  }
  return starts
}

/**
 * `before` and `after` are the zone's offsets around a change of its clocks at `at` (Unix ms). Returns whether the
 * clocks then show another hour or minute, of `lengthMs`, than just before the change.
 */
function showsAnother(lengthMs: number, at: number, before: number, after: number): boolean {
  return Math.floor((at - 1 + before) / lengthMs) !== Math.floor((at + after) / lengthMs)
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by
}

/** A moment (Unix ms) in a time zone. */
export function zoned(at: number, timeZone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
}

/** The zone's name in its standard case. Throws for unknown zones. */
export function timeZoneId(name: string): string {
  return zoned(0, name).timeZoneId
}
