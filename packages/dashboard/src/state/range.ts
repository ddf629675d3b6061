import { eventLimits } from '@sluice/contracts/event-limits'
import { statsLimits, type TimeUnit } from '@sluice/contracts/stats'
import { dayMs, hourMs, minuteMs } from '@sluice/contracts/time-units'
import { temporal } from './temporal.ts'

/** Ranges with a name, in the order of the menu. */
export const presets = ['today', 'yesterday', '7d', '28d', '91d', 'month', 'last_month', 'year', '12mo', 'all'] as const
export type Preset = (typeof presets)[number]

/**
 * Chosen days or times: both ends are dates (`2026-11-01`, the last one included), or both are local times
 * (`2026-11-01T10:00`, the last one excluded).
 */
export interface CustomRange {
  from: string
  to: string
}
export type Range = Preset | CustomRange

/**
 * What a range is compared with: nothing, the range before, the same weekdays a year before (364 days), or chosen days.
 */
export type Compare = 'none' | 'previous' | 'year' | CustomRange

/** A range in a time zone. */
export interface Bounds {
  /** Unix ms, included. */
  startMs: number
  /** Unix ms, excluded. */
  endMs: number
  /** The range ends at the view's clock, so that its last bucket still grows. */
  isOpen: boolean
  /** The range was chosen by times, and not by days: these are shown. */
  hasTimes?: boolean
}

export interface Moment {
  /** The view's clock, Unix ms. */
  now: number
  /** IANA name. */
  zone: string
  /** Time of the site's first event, Unix ms: where `all` begins. */
  firstEventAt: number | null
}

type Zoned = ReturnType<typeof zonedAt>
type Duration = Parameters<Zoned['subtract']>[0]

const zonedAt = (ms: number, zone: string) =>
  temporal().Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(zone)

const bounds = (start: Zoned, end: Zoned, now: number): Bounds => ({
  startMs: start.epochMilliseconds,
  endMs: Math.max(end.epochMilliseconds, start.epochMilliseconds + 1),
  isOpen: end.epochMilliseconds >= now,
})

const isDate = (text: string) => !text.includes('T')

/** Whether both ends of a chosen range are readable, alike and in order. */
export function isValidCustom({ from, to }: CustomRange): boolean {
  const pattern = isDate(from) ? /^\d{4}-\d{2}-\d{2}$/ : /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/
  if (!pattern.test(from) || !pattern.test(to) || from < '1971' || to > '2199') return false
  try {
    const { PlainDateTime } = temporal()
    PlainDateTime.from(from, { overflow: 'reject' })
    PlainDateTime.from(to, { overflow: 'reject' })
  } catch {
    return false
  }
  return isDate(from) ? from <= to : from < to
}

function customBounds({ from, to }: CustomRange, { now, zone }: Moment): Bounds {
  const { PlainDate, PlainDateTime } = temporal()
  const start = isDate(from)
    ? PlainDate.from(from).toZonedDateTime(zone)
    : PlainDateTime.from(from).toZonedDateTime(zone)
  const end = isDate(to)
    ? PlainDate.from(to).add({ days: 1 }).toZonedDateTime(zone)
    : PlainDateTime.from(to).toZonedDateTime(zone)
  const endMs = end.epochMilliseconds
  const times = isDate(from) ? {} : { hasTimes: true }
  // Days that are not over end at the clock, as presets do.
  if (endMs > now && start.epochMilliseconds < now)
    return { ...bounds(start, zonedAt(now, zone), now), ...times, isOpen: true }
  return { ...bounds(start, end, now), ...times, isOpen: false }
}

/** First day of each preset that ends at the clock, given the start of today. */
const starts: Partial<Record<Preset, (today: Zoned) => Zoned>> = {
  today: (today) => today,
  '7d': (today) => today.subtract({ days: 6 }),
  '28d': (today) => today.subtract({ days: 27 }),
  '91d': (today) => today.subtract({ days: 90 }),
  month: (today) => today.with({ day: 1 }),
  year: (today) => today.with({ day: 1, month: 1 }),
  '12mo': (today) => today.with({ day: 1 }).subtract({ months: 11 }),
}

/** The times of a range. Days are those of the zone; ranges that reach today end at the clock. */
export function boundsOf(range: Range, moment: Moment): Bounds {
  if (typeof range === 'object') return customBounds(range, moment)
  const { now, zone, firstEventAt } = moment
  const clock = zonedAt(now, zone)
  const today = clock.startOfDay()
  if (range === 'yesterday') return { ...bounds(today.subtract({ days: 1 }).startOfDay(), today, now), isOpen: false }
  if (range === 'last_month') {
    const month = today.with({ day: 1 }).startOfDay()
    return { ...bounds(month.subtract({ months: 1 }).startOfDay(), month, now), isOpen: false }
  }
  const first = zonedAt(Math.min(firstEventAt ?? now, now), zone).startOfDay()
  const start = starts[range]?.(today).startOfDay() ?? first
  return { ...bounds(start, clock, now), isOpen: true }
}

/** How far back the range lies that `previous` means; undefined where there is none. */
function shiftOf(range: Range, moment: Moment): Duration | undefined {
  if (typeof range === 'object') {
    if (!isDate(range.from)) {
      const { startMs, endMs } = customBounds(range, moment)
      return { milliseconds: endMs - startMs }
    }
    return lengthOf(range)
  }
  const shifts: Record<Preset, Duration | undefined> = {
    today: { days: 1 },
    yesterday: { days: 1 },
    '7d': { days: 7 },
    '28d': { days: 28 },
    '91d': { days: 91 },
    month: { months: 1 },
    last_month: { months: 1 },
    year: { years: 1 },
    '12mo': { months: 12 },
    all: undefined,
  }
  return shifts[range]
}

/**
 * The times that a range is compared with; undefined for none, and before 1971, where there are no events. The same
 * part of the range before is taken: today until 14:00 meets yesterday until 14:00, a month until today the same days
 * of the month before.
 */
export function comparedBoundsOf(compare: Compare, range: Range, moment: Moment): Bounds | undefined {
  const compared = comparedAt(compare, range, moment)
  return compared !== undefined && compared.startMs >= eventLimits.timestampMsMin ? compared : undefined
}

function comparedAt(compare: Compare, range: Range, moment: Moment): Bounds | undefined {
  if (compare === 'none') return undefined
  if (typeof compare === 'object') return { ...customBounds(compare, moment), isOpen: false }
  const { zone, now } = moment
  const { startMs, endMs, ...others } = boundsOf(range, moment)
  const shift = compare === 'year' ? { days: 364 } : shiftOf(range, moment)
  if (shift === undefined || (range === 'all' && compare === 'previous')) return undefined
  // A chosen range with times is moved by its length, and not by days.
  const isOfDays = compare === 'year' || typeof range === 'string' || isDate(range.from)
  const moved = (ms: number): Zoned => {
    const from = zonedAt(ms, zone)
    const to = from.subtract(shift)
    // Where clocks are put forward at midnight, a day begins at 01:00, and the day that is compared at 00:00.
    return isOfDays && from.equals(from.startOfDay()) ? to.startOfDay() : to
  }
  return { ...others, ...bounds(moved(startMs), moved(endMs), now), isOpen: false }
}

/** A range moved by its own length: `-1` back, `1` forth. Undefined where it can't move, or would lie in the future. */
export function shifted(range: Range, by: -1 | 1, moment: Moment): CustomRange | undefined {
  const shift = shiftOf(range, moment)
  if (shift === undefined) return undefined
  const { startMs } = boundsOf(range, moment)
  const move = (at: Zoned) => (by === 1 ? at.add(shift) : at.subtract(shift))
  const start = zonedAt(startMs, moment.zone)
  const moved = move(start)
  if (moved.epochMilliseconds >= moment.now) return undefined
  if (typeof range === 'object' && !isDate(range.from)) {
    const { endMs } = boundsOf(range, moment)
    return { from: localTime(moved), to: localTime(move(zonedAt(endMs, moment.zone))) }
  }
  const whole = typeof range === 'object' ? lengthOf(range) : wholeOf(range)
  return { from: moved.toPlainDate().toString(), to: moved.toPlainDate().add(whole).subtract({ days: 1 }).toString() }
}

/** Length of chosen days; of whole months in months, so that the range before October is September. */
function lengthOf({ from, to }: CustomRange): Duration {
  const { PlainDate } = temporal()
  const first = PlainDate.from(from)
  const end = PlainDate.from(to).add({ days: 1 })
  const isMonths = first.day === 1 && end.day === 1
  return isMonths ? { months: first.until(end, { largestUnit: 'months' }).months } : { days: first.until(end).days }
}

/** Length of the whole range, of which presets that end at the clock are a part. */
function wholeOf(preset: Preset): Duration {
  if (preset === 'month' || preset === 'last_month') return { months: 1 }
  if (preset === 'year' || preset === '12mo') return { months: 12 }
  if (preset === 'today' || preset === 'yesterday') return { days: 1 }
  return { days: Number.parseInt(preset) }
}

const localTime = (at: Zoned) => at.toPlainDateTime().toString({ smallestUnit: 'minute' })

/**
 * The chosen days of bounds, as absolute dates for links that stay: whole days as dates, else local times. These are
 * written without seconds: the end is that of its minute.
 */
export function customOf({ startMs, endMs }: Bounds, zone: string): CustomRange {
  const start = zonedAt(startMs, zone)
  const end = zonedAt(Math.ceil(endMs / minuteMs) * minuteMs, zone)
  const isWholeDays = startMs === start.startOfDay().epochMilliseconds && end.equals(end.startOfDay())
  if (isWholeDays) {
    return { from: start.toPlainDate().toString(), to: end.toPlainDate().subtract({ days: 1 }).toString() }
  }
  return { from: localTime(start), to: localTime(end) }
}

/** First and last day of bounds, as dates of the zone. */
export function datesOf({ startMs, endMs }: Bounds, zone: string): CustomRange {
  return {
    from: zonedAt(startMs, zone).toPlainDate().toString(),
    to: zonedAt(endMs - 1, zone)
      .toPlainDate()
      .toString(),
  }
}

const unitMs: Record<TimeUnit, number> = {
  minute: minuteMs,
  hour: hourMs,
  day: dayMs,
  week: 7 * dayMs,
  month: 30 * dayMs,
}
const minutesMaxMs = statsLimits.minutesHoursMax * hourMs

/** Whether the service splits bounds by a unit: into at most 5,000 buckets, and at most 6 hours into minutes. */
export function isSplitBy({ startMs, endMs }: Bounds, unit: TimeUnit): boolean {
  const lengthMs = endMs - startMs
  return lengthMs / unitMs[unit] < statsLimits.bucketsMax - 1 && (unit !== 'minute' || lengthMs <= minutesMaxMs)
}

/** The units that a chart of these bounds may be split by: at least two buckets, at most 5,000. */
export function unitsFor(bounds: Bounds): TimeUnit[] {
  const lengthMs = bounds.endMs - bounds.startMs
  return (Object.keys(unitMs) as TimeUnit[]).filter(
    (unit) => isSplitBy(bounds, unit) && (lengthMs > unitMs[unit] || unit === 'minute' || unit === 'hour'),
  )
}

/** The unit of a chart when none is chosen. */
export function unitFor(range: Bounds): TimeUnit {
  const lengthMs = range.endMs - range.startMs
  if (lengthMs <= 2 * hourMs) return 'minute'
  if (lengthMs <= 3 * dayMs) return 'hour'
  if (lengthMs <= 120 * dayMs) return 'day'
  return lengthMs <= 300 * dayMs ? 'week' : 'month'
}

/** The end of the bucket that starts at `ms`, Unix ms. */
export function bucketEnd(ms: number, unit: TimeUnit, zone: string): number {
  const end = zonedAt(ms, zone).add({ [`${unit}s`]: 1 })
  // After a day that begins at 01:00, the wall clock of its start is past the start of the next one.
  return (unit === 'hour' || unit === 'minute' ? end : end.startOfDay()).epochMilliseconds
}

/** Neighbouring buckets of a chart: where the first and the last one start, Unix ms. */
interface Buckets {
  from: number
  to: number
  unit: TimeUnit
}

/** The days or times of buckets. `answered` are the bounds of the chart's answer, which may cut them. */
export function customOfBuckets({ from, to, unit }: Buckets, answered: Bounds, zone: string): CustomRange {
  const startMs = Math.max(from, answered.startMs)
  const endMs = Math.min(bucketEnd(to, unit, zone), answered.endMs)
  // A range that reaches the present stands for whole days, so that it goes on growing.
  const isGrowing = answered.isOpen && endMs === answered.endMs && unit !== 'hour' && unit !== 'minute'
  const wholeMs = isGrowing ? bucketEnd(zonedAt(endMs - 1, zone).startOfDay().epochMilliseconds, 'day', zone) : endMs
  const range = customOf({ startMs, endMs: wholeMs, isOpen: false }, zone)
  // Where clocks are put back, the end may have the wall clock of the start, or an earlier one.
  return isValidCustom(range) ? range : customOf({ startMs, endMs: wholeMs + hourMs, isOpen: false }, zone)
}
