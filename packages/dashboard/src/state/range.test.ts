import { describe, expect, test } from '@jest/globals'
import type { TimeUnit } from '@sluice/contracts/stats'
import {
  type Bounds,
  boundsOf,
  bucketEnd,
  type Compare,
  comparedBoundsOf,
  customOf,
  customOfBuckets,
  type CustomRange,
  isSplitBy,
  isValidCustom,
  presets,
  type Range,
  shifted,
  unitFor,
  unitsFor,
} from './range.ts'
import { loadTemporal, temporal } from './temporal.ts'

await loadTemporal()

const at = (text: string, zone = 'Europe/Berlin') =>
  temporal().PlainDateTime.from(text).toZonedDateTime(zone).epochMilliseconds
const moment = (now: string, zone = 'Europe/Berlin') => ({
  now: at(now, zone),
  zone,
  firstEventAt: at('2024-05-20T10:00', zone),
})
const local = (bounds: Bounds | undefined, zone = 'Europe/Berlin') =>
  bounds === undefined
    ? undefined
    : [bounds.startMs, bounds.endMs].map((ms) =>
        temporal()
          .Instant.fromEpochMilliseconds(ms)
          .toZonedDateTimeISO(zone)
          .toPlainDateTime()
          .toString({ smallestUnit: 'minute' }),
      )

const now = moment('2026-11-22T14:30')

describe('a range', () => {
  test.each<[Range, string, string]>([
    ['today', '2026-11-22T00:00', '2026-11-22T14:30'],
    ['yesterday', '2026-11-21T00:00', '2026-11-22T00:00'],
    ['7d', '2026-11-16T00:00', '2026-11-22T14:30'],
    ['28d', '2026-10-26T00:00', '2026-11-22T14:30'],
    ['91d', '2026-08-24T00:00', '2026-11-22T14:30'],
    ['month', '2026-11-01T00:00', '2026-11-22T14:30'],
    ['last_month', '2026-10-01T00:00', '2026-11-01T00:00'],
    ['year', '2026-01-01T00:00', '2026-11-22T14:30'],
    ['12mo', '2025-12-01T00:00', '2026-11-22T14:30'],
    ['all', '2024-05-20T00:00', '2026-11-22T14:30'],
    [{ from: '2026-11-01', to: '2026-11-03' }, '2026-11-01T00:00', '2026-11-04T00:00'],
    [{ from: '2026-11-20', to: '2026-11-22' }, '2026-11-20T00:00', '2026-11-22T14:30'],
    [{ from: '2026-11-01T10:00', to: '2026-11-01T12:30' }, '2026-11-01T10:00', '2026-11-01T12:30'],
  ])('%j', (range, start, end) => expect(local(boundsOf(range, now))).toStrictEqual([start, end]))

  test('days are those of the zone: Kolkata is ahead, and has half hours', () => {
    const bounds = boundsOf('today', { ...now, zone: 'Asia/Kolkata' })
    expect(new Date(bounds.startMs).toISOString()).toBe('2026-11-21T18:30:00.000Z')
  })

  test('a day has 23 or 25 hours where clocks change, and may begin at 01:00', () => {
    const hours = ({ startMs, endMs }: Bounds) => (endMs - startMs) / 3_600_000
    expect(hours(boundsOf({ from: '2026-03-29', to: '2026-03-29' }, now))).toBe(23)
    expect(hours(boundsOf({ from: '2026-10-25', to: '2026-10-25' }, now))).toBe(25)
    expect(
      local(
        boundsOf({ from: '2026-04-24', to: '2026-04-24' }, moment('2026-11-22T14:30', 'Africa/Cairo')),
        'Africa/Cairo',
      ),
    ).toStrictEqual(['2026-04-24T01:00', '2026-04-25T00:00'])
  })
})

describe('a comparison', () => {
  test.each<[Range, string, string]>([
    ['today', '2026-11-21T00:00', '2026-11-21T14:30'],
    ['yesterday', '2026-11-20T00:00', '2026-11-21T00:00'],
    ['28d', '2026-09-28T00:00', '2026-10-25T14:30'],
    ['month', '2026-10-01T00:00', '2026-10-22T14:30'],
    ['last_month', '2026-09-01T00:00', '2026-10-01T00:00'],
    ['year', '2025-01-01T00:00', '2025-11-22T14:30'],
    [{ from: '2026-11-01', to: '2026-11-03' }, '2026-10-29T00:00', '2026-11-01T00:00'],
    [{ from: '2026-10-01', to: '2026-10-31' }, '2026-09-01T00:00', '2026-10-01T00:00'],
    [{ from: '2026-11-01', to: '2026-11-30' }, '2026-10-01T00:00', '2026-10-22T14:30'],
    [{ from: '2026-11-01T10:00', to: '2026-11-01T12:30' }, '2026-11-01T07:30', '2026-11-01T10:00'],
    [{ from: '2026-11-20T00:00', to: '2026-11-20T06:00' }, '2026-11-19T18:00', '2026-11-20T00:00'],
    [{ from: '2026-11-19T18:00', to: '2026-11-20T00:00' }, '2026-11-19T12:00', '2026-11-19T18:00'],
  ])('of %j takes the same part of the range before', (range, start, end) =>
    expect(local(comparedBoundsOf('previous', range, now))).toStrictEqual([start, end]),
  )

  test('of a month to date ends with the shorter month', () => {
    expect(local(comparedBoundsOf('previous', 'month', moment('2026-03-31T10:00')))).toStrictEqual([
      '2026-02-01T00:00',
      '2026-02-28T10:00',
    ])
  })

  test('of days takes whole days where a day begins at 01:00', () => {
    const inCairo = (range: Range, text: string) =>
      local(comparedBoundsOf('previous', range, moment(text, 'Africa/Cairo')), 'Africa/Cairo')
    expect(inCairo('today', '2026-04-24T14:30')).toStrictEqual(['2026-04-23T00:00', '2026-04-23T14:30'])
    expect(inCairo('yesterday', '2026-04-24T14:30')).toStrictEqual(['2026-04-22T00:00', '2026-04-23T00:00'])
    expect(inCairo('yesterday', '2026-04-26T14:30')).toStrictEqual(['2026-04-24T01:00', '2026-04-25T00:00'])
  })

  test('with the year before keeps the weekdays', () =>
    expect(local(comparedBoundsOf('year', '7d', now))).toStrictEqual(['2025-11-17T00:00', '2025-11-23T14:30']))

  test('none, and none of all time', () => {
    expect(comparedBoundsOf('none', '7d', now)).toBeUndefined()
    expect(comparedBoundsOf('previous', 'all', now)).toBeUndefined()
  })

  test('has times where the range or the compared one was chosen by times', () => {
    const times = { from: '2026-11-01T10:00', to: '2026-11-01T12:30' }
    const days = { from: '2026-11-01', to: '2026-11-03' }
    const hasTimes = (compare: Compare, range: Range) => comparedBoundsOf(compare, range, now)?.hasTimes
    expect(boundsOf(times, now).hasTimes).toBe(true)
    expect(hasTimes('previous', times)).toBe(true)
    expect(hasTimes('year', times)).toBe(true)
    expect(hasTimes(times, '7d')).toBe(true)
    expect(boundsOf(days, now).hasTimes).toBeUndefined()
    expect(hasTimes('previous', days)).toBeUndefined()
    expect(hasTimes(days, times)).toBeUndefined()
    expect(hasTimes('previous', 'today')).toBeUndefined()
  })

  test('none with days before 1971, about which the service takes no question', () => {
    const first = { from: '1971-01-02', to: '1971-01-10' }
    expect(comparedBoundsOf('previous', first, now)).toBeUndefined()
    expect(comparedBoundsOf('year', first, now)).toBeUndefined()
    expect(local(comparedBoundsOf(first, '7d', now))).toStrictEqual(['1971-01-02T00:00', '1971-01-11T00:00'])
  })
})

describe('moving a range', () => {
  test.each<[Range, -1 | 1, Range | undefined]>([
    ['28d', -1, { from: '2026-09-28', to: '2026-10-25' }],
    ['today', -1, { from: '2026-11-21', to: '2026-11-21' }],
    ['month', -1, { from: '2026-10-01', to: '2026-10-31' }],
    [{ from: '2026-10-01', to: '2026-10-03' }, 1, { from: '2026-10-04', to: '2026-10-06' }],
    [{ from: '2026-10-01', to: '2026-10-31' }, -1, { from: '2026-09-01', to: '2026-09-30' }],
    [{ from: '2026-02-01', to: '2026-02-28' }, 1, { from: '2026-03-01', to: '2026-03-31' }],
    [{ from: '2025-01-01', to: '2025-12-31' }, -1, { from: '2024-01-01', to: '2024-12-31' }],
    [{ from: '2026-10-02', to: '2026-11-01' }, -1, { from: '2026-09-01', to: '2026-10-01' }],
    [{ from: '2026-11-01T10:00', to: '2026-11-01T12:00' }, 1, { from: '2026-11-01T12:00', to: '2026-11-01T14:00' }],
    ['today', 1, undefined],
    ['all', -1, undefined],
  ])('%j by %d', (range, by, expected) => expect(shifted(range, by, now)).toStrictEqual(expected))
})

test('bounds of whole days are days, others local times', () => {
  expect(customOf(boundsOf('yesterday', now), now.zone)).toStrictEqual({ from: '2026-11-21', to: '2026-11-21' })
  expect(customOf(boundsOf('today', now), now.zone)).toStrictEqual({ from: '2026-11-22T00:00', to: '2026-11-22T14:30' })
  const todayAt = (time: string) => {
    const late = moment(`2026-11-22T${time}`)
    return customOf(boundsOf('today', late), late.zone)
  }
  expect(todayAt('14:05:50')).toStrictEqual({ from: '2026-11-22T00:00', to: '2026-11-22T14:06' })
  expect(todayAt('00:00:30')).toStrictEqual({ from: '2026-11-22T00:00', to: '2026-11-22T00:01' })
})

describe('a bucket', () => {
  test('ends where the next day begins, also after a day that begins at 01:00', () => {
    const zone = 'Africa/Cairo'
    const day = at('2026-04-24T01:00', zone)
    expect(bucketEnd(day, 'day', zone)).toBe(at('2026-04-25T00:00', zone))
    expect(bucketEnd(at('2026-04-23T00:00', zone), 'day', zone)).toBe(day)
    expect(bucketEnd(at('2026-04-24T05:00', zone), 'hour', zone)).toBe(at('2026-04-24T06:00', zone))
    // Beirut's clocks are put forward at midnight of a Sunday.
    expect(bucketEnd(at('2026-03-23T00:00', 'Asia/Beirut'), 'week', 'Asia/Beirut')).toBe(
      at('2026-03-30T00:00', 'Asia/Beirut'),
    )
    expect(bucketEnd(at('2026-03-29T01:00', 'Asia/Beirut'), 'day', 'Asia/Beirut')).toBe(
      at('2026-03-30T00:00', 'Asia/Beirut'),
    )
  })
})

describe('buckets that are chosen on the chart', () => {
  const chosen = (range: Range, unit: TimeUnit, from: string, to: string, when = now) =>
    customOfBuckets({ from: at(from, when.zone), to: at(to, when.zone), unit }, boundsOf(range, when), when.zone)

  test.each<[Range, TimeUnit, string, string, CustomRange]>([
    ['12mo', 'month', '2026-11-01T00:00', '2026-11-01T00:00', { from: '2026-11-01', to: '2026-11-22' }],
    ['12mo', 'month', '2026-09-01T00:00', '2026-11-01T00:00', { from: '2026-09-01', to: '2026-11-22' }],
    ['12mo', 'month', '2026-10-01T00:00', '2026-10-01T00:00', { from: '2026-10-01', to: '2026-10-31' }],
    ['91d', 'week', '2026-11-16T00:00', '2026-11-16T00:00', { from: '2026-11-16', to: '2026-11-22' }],
    ['91d', 'week', '2026-08-24T00:00', '2026-08-24T00:00', { from: '2026-08-24', to: '2026-08-30' }],
    ['28d', 'day', '2026-11-22T00:00', '2026-11-22T00:00', { from: '2026-11-22', to: '2026-11-22' }],
    ['28d', 'day', '2026-11-20T00:00', '2026-11-22T00:00', { from: '2026-11-20', to: '2026-11-22' }],
    // Only a part of the first bucket belongs to the range.
    [
      { from: '2026-10-14', to: '2026-11-22' },
      'month',
      '2026-10-01T00:00',
      '2026-10-01T00:00',
      { from: '2026-10-14', to: '2026-10-31' },
    ],
    [
      { from: '2026-10-14', to: '2026-11-03' },
      'month',
      '2026-11-01T00:00',
      '2026-11-01T00:00',
      { from: '2026-11-01', to: '2026-11-03' },
    ],
    ['today', 'hour', '2026-11-22T12:00', '2026-11-22T14:00', { from: '2026-11-22T12:00', to: '2026-11-22T14:30' }],
  ])('of %j by %s: %s to %s', (range, unit, from, to, expected) =>
    expect(chosen(range, unit, from, to)).toStrictEqual(expected),
  )

  test('end with the day before when the clock shows midnight', () => {
    const midnight = moment('2026-11-22T00:00')
    expect(chosen('12mo', 'month', '2026-11-01T00:00', '2026-11-01T00:00', midnight)).toStrictEqual({
      from: '2026-11-01',
      to: '2026-11-21',
    })
  })

  test('are whole days in a zone where one of them begins at 01:00', () => {
    const when = moment('2026-05-22T14:30', 'Africa/Cairo')
    expect(chosen('91d', 'day', '2026-04-24T01:00', '2026-04-24T01:00', when)).toStrictEqual({
      from: '2026-04-24',
      to: '2026-04-24',
    })
  })

  test('are a range that can be read, also in the first minute of an hour and where clocks are put back', () => {
    const early = moment('2026-11-22T14:00:20')
    const first = chosen('today', 'hour', '2026-11-22T14:00', '2026-11-22T14:00', early)
    expect(first).toStrictEqual({ from: '2026-11-22T14:00', to: '2026-11-22T14:01' })
    const day = boundsOf({ from: '2026-10-25', to: '2026-10-25' }, now)
    const summer = Date.UTC(2026, 9, 25, 0)
    const twice = customOfBuckets({ from: summer, to: summer, unit: 'hour' }, day, now.zone)
    expect(isValidCustom(twice)).toBe(true)
    expect(twice).toStrictEqual({ from: '2026-10-25T02:00', to: '2026-10-25T03:00' })
  })
})

test('a compared range is split by units of which it has at most 5,000, also if it is shorter than one', () => {
  const year = boundsOf({ from: '2025-01-01', to: '2025-12-31' }, now)
  expect(isSplitBy(year, 'hour')).toBe(false)
  expect(isSplitBy(year, 'day')).toBe(true)
  const day = boundsOf('yesterday', now)
  expect(isSplitBy(day, 'minute')).toBe(false)
  expect(isSplitBy(day, 'month')).toBe(true)
})

test('the unit of the chart is among those that may be chosen', () => {
  for (const preset of presets) {
    const bounds = boundsOf(preset, now)
    expect(unitsFor(bounds)).toContain(unitFor(bounds))
  }
  expect(unitsFor(boundsOf('today', now))).toStrictEqual(['hour'])
  expect(unitsFor(boundsOf('28d', now))).toStrictEqual(['hour', 'day', 'week'])
})
