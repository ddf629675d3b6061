import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { comparisons, timeUnits } from '@sluice/contracts/stats'
import { bucketsByClock, rangeBefore, wallTime } from '../../tests/support/oracle/zone-clock.ts'
import { bucketStarts } from './calendar.ts'
import { comparedRange } from './stats/compared-range.ts'

const hour = 3_600_000

/** Zones with unusual changes of their clocks, each with a moment near the change. */
const oddities: readonly (readonly [zone: string, at: number])[] = [
  ['UTC', Date.UTC(2024, 1, 29, 0)],
  ['Europe/Berlin', Date.UTC(2024, 2, 31, 1)],
  ['Europe/Berlin', Date.UTC(2024, 9, 27, 1)],
  ['America/New_York', Date.UTC(2024, 2, 10, 7)],
  ['America/New_York', Date.UTC(2024, 10, 3, 6)],
  // Clocks change by half an hour.
  ['Australia/Lord_Howe', Date.UTC(2024, 3, 6, 15)],
  ['Australia/Lord_Howe', Date.UTC(2024, 9, 5, 15, 30)],
  // The offsets from UTC have half and quarter hours.
  ['Asia/Kolkata', Date.UTC(2023, 11, 31, 18, 30)],
  ['Asia/Kathmandu', Date.UTC(2023, 11, 31, 18, 15)],
  ['Asia/Kathmandu', Date.UTC(1985, 11, 31, 18, 30)],
  ['Pacific/Chatham', Date.UTC(2024, 3, 6, 14)],
  // A day has no midnight, or two of them.
  ['America/Sao_Paulo', Date.UTC(2018, 10, 4, 3)],
  ['America/Sao_Paulo', Date.UTC(2018, 1, 18, 2)],
  ['Africa/Cairo', Date.UTC(2024, 3, 25, 22)],
  ['Africa/Cairo', Date.UTC(2024, 9, 31, 21)],
  ['America/Havana', Date.UTC(2024, 10, 3, 5)],
  // Clocks are put back across midnight, one minute after it.
  ['America/St_Johns', Date.UTC(2006, 9, 29, 2, 31)],
  // 30 December 2011 does not exist; a date lasts twice as long.
  ['Pacific/Apia', Date.UTC(2011, 11, 30, 10)],
  ['Pacific/Kwajalein', Date.UTC(1993, 7, 21, 12)],
  // The offset from UTC has seconds.
  ['Africa/Monrovia', Date.UTC(1972, 0, 7, 0, 44, 30)],
  ['Africa/Casablanca', Date.UTC(2024, 2, 10, 2)],
]

const moment = (at: number) =>
  fc
    .tuple(
      fc.constantFrom(-60, -9, -1, 0, 0, 0, 0, 0, 1, 7, 30),
      fc.integer({ min: -30, max: 30 }),
      fc.constantFrom(0, 0, 0, 15, 30, 45),
      fc.constantFrom(0, 0, 0, -1, 1, 1234),
    )
    .map(([days, hours, minutes, ms]) => at + (days * 24 + hours) * hour + minutes * 60_000 + ms)

const range = fc.constantFrom(...oddities).chain(([zone, at]) =>
  fc
    .tuple(moment(at), moment(at))
    .filter(([a, b]) => a !== b)
    .map((edges) => ({ zone, start: Math.min(...edges), end: Math.max(...edges) })),
)

test('the starts of buckets follow the clocks of the zone', () => {
  fc.assert(
    fc.property(range, fc.constantFrom(...timeUnits), ({ zone, start, end: drawnEnd }, unit) => {
      const end = unit === 'minute' ? Math.min(drawnEnd, start + 6 * hour) : drawnEnd
      expect(bucketStarts({ start, end }, unit, zone)).toStrictEqual(bucketsByClock(start, end, unit, zone))
    }),
    { numRuns: 1_000 },
  )
})

test('a range is compared with the range of its length before it, or with the same local dates a year before', () => {
  fc.assert(
    fc.property(range, fc.constantFrom(...comparisons), ({ zone, start, end }, comparison) => {
      const compared = comparedRange({ start, end }, comparison, zone)
      expect([compared.start, compared.end]).toStrictEqual(rangeBefore(start, end, comparison, zone))
    }),
    { numRuns: 1_000 },
  )
})

test('the clock of the oracle shows the local times of known moments', () => {
  expect(new Date(wallTime(Date.UTC(2011, 11, 30, 9, 59, 59), 'Pacific/Apia')).toISOString()).toBe(
    '2011-12-29T23:59:59.000Z',
  )
  expect(new Date(wallTime(Date.UTC(2011, 11, 30, 10), 'Pacific/Apia')).toISOString()).toBe('2011-12-31T00:00:00.000Z')
})
