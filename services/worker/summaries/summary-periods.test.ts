import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { bucketsByClock, wallTime } from '../../../tests/support/oracle/zone-clock.ts'
import { duePeriods, missedMax } from './summary-periods.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

describe('days of 23 and 25 hours', () => {
  test.each([
    ['Europe/Berlin', '2026-03-29', 23],
    ['Europe/Berlin', '2026-10-25', 25],
    ['America/New_York', '2026-03-08', 23],
    ['America/New_York', '2026-11-01', 25],
    ['Australia/Lord_Howe', '2026-10-04', 23.5],
    ['Australia/Lord_Howe', '2026-04-05', 24.5],
    ['America/Santiago', '2026-09-06', 23],
    ['UTC', '2026-03-29', 24],
  ])('%s: %s has %d', (timeZone, date, hours) => {
    const noon = Date.parse(`${date}T12:00:00Z`)
    const question = { interval: '1d', timeZone, nextStart: null, since: noon } as const
    const { ended, nextEnd } = duePeriods({ ...question, now: noon })
    expect(ended).toEqual([])
    expect(duePeriods({ ...question, now: nextEnd - 1 }).ended).toEqual([])
    expect(duePeriods({ ...question, now: nextEnd }).ended).toEqual([{ start: nextEnd - hours * hourMs, end: nextEnd }])
  })

  test('the hour that comes twice is two periods, and the one that is skipped is none', () => {
    const [back, forward] = [Date.UTC(2026, 9, 25, 1), Date.UTC(2026, 2, 29, 1)]
    for (const change of [back, forward]) {
      const { ended } = duePeriods({
        interval: '1h',
        timeZone: 'Europe/Berlin',
        nextStart: change - 2 * hourMs,
        since: 0,
        now: change + 2 * hourMs,
      })
      expect(ended.map(({ start, end }) => [start - change, end - start])).toEqual(
        [-2, -1, 0, 1].map((hours) => [hours * hourMs, hourMs]),
      )
    }
  })
})

test('the first period is the one in which the webhook was made', () => {
  const since = Date.UTC(2026, 4, 15, 12, 34)
  const { ended, nextEnd } = duePeriods({
    interval: '1h',
    timeZone: 'Asia/Kolkata',
    nextStart: null,
    since,
    now: since,
  })
  expect(ended).toEqual([])
  expect(nextEnd).toBe(Date.UTC(2026, 4, 15, 13, 30))
})

test('after a long outage the last 48 follow', () => {
  const nextStart = Date.UTC(2026, 0, 1)
  const now = Date.UTC(2026, 4, 15, 12, 34)
  const { ended, leftOut, nextEnd } = duePeriods({ interval: '1h', timeZone: 'UTC', nextStart, since: 0, now })
  expect(ended).toHaveLength(missedMax)
  expect(ended.at(-1)).toEqual({ start: Date.UTC(2026, 4, 15, 11), end: Date.UTC(2026, 4, 15, 12) })
  expect(leftOut).toBe((Date.UTC(2026, 4, 15, 12) - nextStart) / hourMs - missedMax)
  expect(nextEnd).toBe(Date.UTC(2026, 4, 15, 13))
})

test('after a change of the zone the first period begins when the last one has ended, or later', () => {
  // Midnight in Tokyo.
  const nextStart = Date.UTC(2026, 4, 14, 15)
  const { ended } = duePeriods({
    interval: '1d',
    timeZone: 'Europe/Berlin',
    nextStart,
    since: 0,
    now: nextStart + 2 * dayMs,
  })
  expect(ended).toEqual([{ start: Date.UTC(2026, 4, 14, 22), end: Date.UTC(2026, 4, 15, 22) }])
})

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'America/St_Johns', 'Asia/Kathmandu', 'Pacific/Apia']

test('periods follow one another without a gap and begin with a day or an hour of the zone', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom('1h' as const, '1d' as const),
      fc.integer({ min: Date.UTC(2010, 0), max: Date.UTC(2030, 0) }),
      fc.integer({ min: 0, max: 40 * 24 }),
      (timeZone, interval, since, hours) => {
        const now = since + hours * hourMs
        let nextStart: number | null = null
        let nextEnd: number
        do {
          const due = duePeriods({ interval, timeZone, nextStart, since, now: now })
          if (due.leftOut > 0) nextStart = null
          nextEnd = due.nextEnd
          for (const { start, end } of due.ended) {
            if (nextStart === null) expect(due.leftOut > 0 || (start <= since && since < end)).toBe(true)
            else expect(start).toBe(nextStart)
            const isFull = wallTime(start, timeZone) % (interval === '1h' ? hourMs : dayMs) === 0
            // A day whose midnight was skipped begins later.
            if (!isFull)
              expect(bucketsByClock(start, start + 1, interval === '1h' ? 'hour' : 'day', timeZone)).toEqual([start])
            nextStart = end
          }
          if (due.ended.length === 0) break
        } while (nextEnd <= now)
        expect(nextEnd).toBeGreaterThan(now)
      },
    ),
    { numRuns: 150, examples: [['Pacific/Apia', '1d', 1_282_140_000_000, 956]] },
  )
})
