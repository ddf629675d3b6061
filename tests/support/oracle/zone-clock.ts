const minute = 60_000
const quarter = 15 * minute
const hour = 60 * minute
const day = 24 * hour

/** No zone has changed its clocks twice within this time. */
const step = 3 * hour

const formats = new Map<string, Intl.DateTimeFormat>()
const wallTimes = new Map<string, Map<number, number>>()

/** The local time of a zone at a moment (Unix ms), as the Unix ms at which UTC's clocks show the same. */
export function wallTime(at: number, zone: string): number {
  const before = at - modulo(at, step)
  const wall = wallTimeOf(before, zone)
  if (wallTimeOf(before + step, zone) - wall === step) return wall + (at - before)
  const second = at - modulo(at, 1000)
  return wallTimeOf(second, zone) + (at - second)
}

function wallTimeOf(second: number, zone: string): number {
  const known = wallTimes.get(zone) ?? new Map<number, number>()
  wallTimes.set(zone, known)
  let wall = known.get(second)
  if (wall === undefined) {
    wall = readClock(second, zone)
    known.set(second, wall)
  }
  return wall
}

function readClock(at: number, zone: string): number {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('en', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  formats.set(zone, format)
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 0, day: date = 0, hour: hours = 0, minute: minutes = 0, second = 0 } = parts
  return Date.UTC(year, month - 1, date, hours, minutes, second)
}

type Unit = 'minute' | 'hour' | 'day' | 'week' | 'month'

/** Longer than any bucket. */
const lookBack: Record<Unit, number> = {
  minute: 3 * hour,
  hour: 3 * hour,
  day: 3 * day,
  week: 10 * day,
  month: 34 * day,
}

/**
 * Starts of the buckets that `[start, end)` touches, found by watching the zone's clocks. An hour or minute begins when
 * the clocks show another one or are put back. A day, week or month begins when they show one for the first time.
 */
export function bucketsByClock(start: number, end: number, unit: Unit, zone: string): number[] {
  const starts: number[] = []
  const ticks = ticksBetween(start - lookBack[unit], end, zone, unit === 'minute' ? minute : hour)
  let last = ticks.shift() ?? 0
  let latest = nameOf(wallTime(last, zone), unit)
  for (const tick of ticks) {
    const wall = wallTime(tick, zone)
    const name = nameOf(wall, unit)
    const isPutBack = wall - wallTime(last, zone) < tick - last
    if (unit === 'hour' || unit === 'minute' ? name !== latest || isPutBack : name > latest) {
      starts.push(tick)
      latest = name
    }
    last = tick
  }
  return starts.filter((at, index) => at < end && (starts[index + 1] ?? Infinity) > start)
}

/** The minute, hour, day, week or month that clocks show, as a number that grows with it. */
function nameOf(wall: number, unit: Unit): number {
  if (unit === 'minute') return Math.floor(wall / minute)
  if (unit === 'hour') return Math.floor(wall / hour)
  if (unit === 'day') return Math.floor(wall / day)
  // 1970 began on a Thursday.
  if (unit === 'week') return Math.floor((wall / day + 3) / 7)
  const date = new Date(wall)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/**
 * Moments at which buckets may begin: between two of them, clocks show no full hour (or another `width` in ms) and do
 * not change. They are full hours, quarters of an hour, and all seconds around a change.
 */
function ticksBetween(from: number, to: number, zone: string, width: number): number[] {
  const ticks: number[] = []
  let before = from - modulo(from, quarter)
  ticks.push(before)
  while (before < to) {
    const next = before + quarter
    const wall = wallTime(next, zone)
    if (wall - wallTime(before, zone) === quarter) {
      const full: number[] = []
      for (let at = next - modulo(wall, width); at > before; at -= width) if (at < next) full.unshift(at)
      ticks.push(...full)
    } else {
      for (let at = before + 1000; at < next; at += 1000) ticks.push(at)
    }
    ticks.push(next)
    before = next
  }
  return ticks
}

/**
 * The same local date and time a year earlier, 29 February becoming 28. A time that a change of clocks skips is later
 * by the length of the gap.
 */
function yearEarlier(at: number, zone: string): number {
  return momentOf(sameDateYearEarlier(wallTime(at, zone)), zone)
}

function sameDateYearEarlier(wall: number): number {
  const date = new Date(wall)
  if (date.getUTCMonth() === 1 && date.getUTCDate() === 29) date.setUTCDate(28)
  date.setUTCFullYear(date.getUTCFullYear() - 1)
  return date.getTime()
}

/** The first moment at which the clocks of a zone show a time. */
function momentOf(wall: number, zone: string): number {
  const offsets = [wall - day, wall + day].map((at) => wallTime(at, zone) - at)
  const candidates = offsets.map((offset) => wall - offset).filter((at) => wallTime(at, zone) === wall)
  return candidates.length > 0 ? Math.min(...candidates) : wall - (offsets[0] ?? 0)
}

/**
 * The range that `[start, end)` is compared with. A start of a day becomes the start of the date a year earlier, whatever
 * clocks show then. An end at the start of a day counts as the end of the previous day.
 */
export function rangeBefore(start: number, end: number, comparison: string, zone: string): [number, number] {
  if (comparison === 'previous_period') return [2 * start - end, start]
  const dateOf = (at: number): number => wallTime(at, zone) - modulo(wallTime(at, zone), day)
  const from = beginsDay(start, zone) ? momentOf(sameDateYearEarlier(dateOf(start)), zone) : yearEarlier(start, zone)
  const to = beginsDay(end, zone)
    ? momentOf(sameDateYearEarlier(dateOf(end) - day) + day, zone)
    : yearEarlier(end, zone)
  return from < to ? [from, to] : [from, from + end - start]
}

function beginsDay(at: number, zone: string): boolean {
  return bucketsByClock(at, at + 1, 'day', zone)[0] === at
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by
}
