import { describe, expect, test } from '@jest/globals'
import {
  type Bounds,
  boundsOf,
  comparedBoundsOf,
  customOf,
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
  ])('%j', (range, start, end) => {
    expect(local(boundsOf(range, now))).toStrictEqual([start, end])
  })

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
    [{ from: '2026-11-01T10:00', to: '2026-11-01T12:30' }, '2026-11-01T07:30', '2026-11-01T10:00'],
  ])('of %j takes the same part of the range before', (range, start, end) => {
    expect(local(comparedBoundsOf('previous', range, now))).toStrictEqual([start, end])
  })

  test('of a month to date ends with the shorter month', () => {
    expect(local(comparedBoundsOf('previous', 'month', moment('2026-03-31T10:00')))).toStrictEqual([
      '2026-02-01T00:00',
      '2026-02-28T10:00',
    ])
  })

  test('with the year before keeps the weekdays', () => {
    expect(local(comparedBoundsOf('year', '7d', now))).toStrictEqual(['2025-11-17T00:00', '2025-11-23T14:30'])
  })

  test('none, and none of all time', () => {
    expect(comparedBoundsOf('none', '7d', now)).toBeUndefined()
    expect(comparedBoundsOf('previous', 'all', now)).toBeUndefined()
  })
})

describe('moving a range', () => {
  test.each<[Range, -1 | 1, Range | undefined]>([
    ['28d', -1, { from: '2026-09-28', to: '2026-10-25' }],
    ['today', -1, { from: '2026-11-21', to: '2026-11-21' }],
    ['month', -1, { from: '2026-10-01', to: '2026-10-31' }],
    [{ from: '2026-10-01', to: '2026-10-03' }, 1, { from: '2026-10-04', to: '2026-10-06' }],
    [{ from: '2026-11-01T10:00', to: '2026-11-01T12:00' }, 1, { from: '2026-11-01T12:00', to: '2026-11-01T14:00' }],
    ['today', 1, undefined],
    ['all', -1, undefined],
  ])('%j by %d', (range, by, expected) => {
    expect(shifted(range, by, now)).toStrictEqual(expected)
  })
})

test('bounds of whole days are days, others local times', () => {
  expect(customOf(boundsOf('yesterday', now), now.zone)).toStrictEqual({ from: '2026-11-21', to: '2026-11-21' })
  expect(customOf(boundsOf('today', now), now.zone)).toStrictEqual({ from: '2026-11-22T00:00', to: '2026-11-22T14:30' })
})

test('the unit of the chart is among those that may be chosen', () => {
  for (const preset of presets) {
    const bounds = boundsOf(preset, now)
    expect(unitsFor(bounds)).toContain(unitFor(bounds))
  }
  expect(unitsFor(boundsOf('today', now))).toStrictEqual(['hour'])
  expect(unitsFor(boundsOf('28d', now))).toStrictEqual(['hour', 'day', 'week'])
})
