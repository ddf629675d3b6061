import { canonicalTimeZone } from '@sluice/contracts/sites'
import type { TimeUnit } from '@sluice/contracts/stats'
import { dayMs, hourMs, minuteMs, secondMs } from '@sluice/contracts/time-units'
import type { Bounds, CustomRange } from '../state/range.ts'
import { temporal } from '../state/temporal.ts'
import { texts } from './messages.ts'
import { locale } from './numbers.ts'

const formats = new Map<string, Intl.DateTimeFormat>()

/** A format from the cache: making one takes a fraction of a millisecond, charts need thousands. */
function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options)
  let found = formats.get(key)
  if (found === undefined) {
    found = new Intl.DateTimeFormat(locale, { timeZone: zone, hourCycle: 'h23', ...options })
    formats.set(key, found)
  }
  return found
}

const day = { day: 'numeric', month: 'short', year: 'numeric' } as const
const time = { hour: '2-digit', minute: '2-digit' } as const

/** The browser's time zone: of times on pages without a site. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone

const knownZones = new Map<string, string>()

/** The time zone; UTC in place of one that the browser does not know, because its database is older than the server's. */
export function knownZone(zone: string): string {
  let known = knownZones.get(zone)
  if (known === undefined) {
    known = canonicalTimeZone(zone) === undefined ? 'UTC' : zone
    knownZones.set(zone, known)
  }
  return known
}

/** Whether the clocks of the zone show the time of a moment twice, because they are put back. */
function isShownTwice(ms: number, zone: string): boolean {
  const shown = temporal().Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(zone).toPlainDateTime()
  const [first, second] = (['earlier', 'later'] as const).map((disambiguation) =>
    shown.toZonedDateTime(zone, { disambiguation }),
  )
  return first?.epochMilliseconds !== second?.epochMilliseconds
}

/**
 * A format with a time of day. It names the time zone where the reader could take it for another: the zone is not the
 * browser's, or its clocks show this time twice. All times of day come from here, except those whose zone is named
 * next to them.
 */
function formatClock(ms: number, zone: string, options: Intl.DateTimeFormatOptions): string {
  const isNamed = zone !== ownZone() || isShownTwice(ms, zone)
  return format(zone, isNamed ? { ...options, timeZoneName: 'short' } : options).format(ms)
}

const seconds = { ...time, second: '2-digit' } as const

/** `20 May 2015`. */
export const formatDate = (ms: number, zone: string): string => format(zone, day).format(ms)
/** `14:05`, or `14:05 CEST`. */
export const formatTime = (ms: number, zone: string): string => formatClock(ms, zone, time)
/** `14:05:09` of the day of `now`, `20 May, 14:05:09` of another one; each with the time zone as above. */
export const formatRecent = (ms: number, zone: string, now: number): string => {
  const isToday = formatDate(ms, zone) === formatDate(now, zone)
  return formatClock(ms, zone, isToday ? seconds : { day: 'numeric', month: 'short', ...seconds })
}
/** `20 May 2015, 14:05`, or `20 May 2015, 14:05 CEST`. */
export const formatDateTime = (ms: number, zone: string): string => formatClock(ms, zone, { ...day, ...time })
/** `20 May 2015, 14:05:09`, or `20 May 2015, 14:05:09 CEST`. */
export const formatDateSeconds = (ms: number, zone: string): string => formatClock(ms, zone, { ...day, ...seconds })
/** `20 May 2015, 14:05`: for places that name the time zone themselves. */
export const formatBare = (ms: number, zone: string): string => format(zone, { ...day, ...time }).format(ms)
/** `20 May 2015, 14:05 CEST`: for records, whose page may have no time zone. */
export const formatZoned = (ms: number, zone: string): string =>
  format(zone, { ...day, ...time, timeZoneName: 'short' }).format(ms)

/** ISO 8601 with the offset of the zone, `2026-11-22T14:05:09+01:00`, for CSV. */
export const formatIso = (ms: number, zone: string): string =>
  temporal()
    .Instant.fromEpochMilliseconds(Math.floor(ms))
    .toZonedDateTimeISO(zone)
    .toString({ timeZoneName: 'never', fractionalSecondDigits: ms % 1000 === 0 ? 0 : 3 })

/** The name of a bucket: `14:00`, `Mon 20 May`, `week of 18 May`, `May 2015`. */
export function formatBucket(ms: number, unit: TimeUnit, zone: string): string {
  if (unit === 'minute') return formatTime(ms, zone)
  if (unit === 'hour') return formatClock(ms, zone, { weekday: 'short', day: 'numeric', month: 'short', ...time })
  if (unit === 'month') return format(zone, { month: 'long', year: 'numeric' }).format(ms)
  if (unit === 'week') return texts.weekOf(formatDate(ms, zone))
  return format(zone, { weekday: 'short', ...day }).format(ms)
}

/** The hour of the day, 0 to 23. */
export const hourOf = (ms: number, zone: string): number => Number(format(zone, { hour: '2-digit' }).format(ms))

/** The name of a bucket on an axis, as short as can be; among hours, the first one of a day names it. */
export function formatTick(ms: number, unit: TimeUnit, zone: string): string {
  if (unit === 'minute' || (unit === 'hour' && hourOf(ms, zone) > 0)) return format(zone, time).format(ms)
  if (unit === 'month') return format(zone, { month: 'short', year: 'numeric' }).format(ms)
  return format(zone, { day: 'numeric', month: 'short' }).format(ms)
}

/** Days of one month stand close together: `17–20 May 2015`. */
const formatRange = (formatter: Intl.DateTimeFormat, from: number, to: number) =>
  formatter.formatRange(from, to).replace(/^(\d{1,2})\s–\s(\d)/, '$1–$2')

/** `17–20 May 2015`: first and last day of bounds; their times where these were chosen. */
export function formatBounds({ startMs, endMs, hasTimes = false }: Bounds, zone: string): string {
  return formatRange(format(zone, hasTimes ? { ...day, ...time } : day), startMs, hasTimes ? endMs : endMs - 1)
}

/** `17–20 May 2015` of chosen days or times. */
export function formatCustom({ from, to }: CustomRange): string {
  const ms = (text: string) => Date.parse(text.includes('T') ? `${text}Z` : `${text}T00:00Z`)
  return formatRange(format('UTC', from.includes('T') ? { ...day, ...time } : day), ms(from), ms(to))
}

/** `now` for 0 seconds. */
const relativeWords = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })
/** For all else, because "yesterday" is a day of the calendar, and what is measured are 24 hours. */
const relativeNumbers = new Intl.RelativeTimeFormat(locale)
/** A unit, its length in ms, and the distance from which it is used. */
const units: [Intl.RelativeTimeFormatUnit, number, number][] = [
  ['year', 365.25 * dayMs, 2 * 365.25 * dayMs],
  ['month', 30.5 * dayMs, 61 * dayMs],
  ['day', dayMs, dayMs],
  ['hour', hourMs, hourMs],
  ['minute', minuteMs, minuteMs],
  ['second', secondMs, secondMs],
]

/** `3 minutes ago`, `1 day ago`, `in 2 days`, `11 years ago`. */
export function formatRelative(ms: number, now: number): string {
  const distance = ms - now
  const [unit, length] = units.find(([, , from]) => Math.abs(distance) >= from) ?? ['second', secondMs]
  const count = Math.trunc(distance / length)
  return (count === 0 ? relativeWords : relativeNumbers).format(count, unit)
}

/** `2026-11-22T14:05` in the zone: what `datetime-local` fields take. */
export function localTime(ms: number, zone: string): string {
  return temporal()
    .Instant.fromEpochMilliseconds(Math.floor(ms))
    .toZonedDateTimeISO(zone)
    .toPlainDateTime()
    .toString({ smallestUnit: 'minute' })
}

/** The moment (Unix ms) of `2026-11-22T14:05` in the zone; NaN for a text that is not such a time. */
export function parseLocalTime(text: string, zone: string): number {
  try {
    return temporal().PlainDateTime.from(text).toZonedDateTime(zone).epochMilliseconds
  } catch {
    return NaN
  }
}
