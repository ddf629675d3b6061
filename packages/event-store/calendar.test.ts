import { expect, test } from '@jest/globals'
import { statsLimits } from '@sluice/contracts/stats'
import { bucketStarts, exceedsBucketLimit } from './calendar.ts'

const hour = 3_600_000

test('a range of 24 hours has 24 buckets when it begins at a full hour, and 25 otherwise', () => {
  const full = Date.UTC(2024, 4, 1, 12)
  expect(bucketStarts({ start: full, end: full + 24 * hour }, 'hour', 'UTC')).toHaveLength(24)
  expect(bucketStarts({ start: full + 1, end: full + 1 + 24 * hour }, 'hour', 'UTC')).toHaveLength(25)
})

test('every bucket is labelled by its start, even the first one, which may start before the range', () => {
  const from = Date.UTC(2024, 1, 28, 23, 59)
  const to = Date.UTC(2024, 2, 1, 0, 0, 0, 1)
  expect(bucketStarts({ start: from, end: to }, 'day', 'UTC')).toStrictEqual([
    Date.UTC(2024, 1, 28),
    Date.UTC(2024, 1, 29),
    Date.UTC(2024, 2, 1),
  ])
})

test('ranges that begin before 1970 have buckets too', () => {
  expect(bucketStarts({ start: -1, end: 1 }, 'hour', 'UTC')).toStrictEqual([-hour, 0])
})

test.each([
  ['UTC', 1970],
  ['Europe/Berlin', 1970],
  // A date is skipped.
  ['Pacific/Apia', 2005],
  ['Pacific/Kwajalein', 1985],
  ['Asia/Manila', 1840],
  // A date appears twice.
  ['America/Juneau', 1860],
])('a range that certainly has too many days in %s is known without its buckets', (timeZone, year) => {
  const start = Date.UTC(year, 0, 1, 12)
  const end = start + (statsLimits.bucketsMax + 5) * 24 * hour
  expect(exceedsBucketLimit({ start, end }, 'day')).toBe(true)
  expect(bucketStarts({ start, end }, 'day', timeZone).length).toBeGreaterThan(statsLimits.bucketsMax)
  expect(exceedsBucketLimit({ start, end: start + statsLimits.bucketsMax * 24 * hour }, 'day')).toBe(false)
})
