import { expect, it } from '@jest/globals'
import { ApiError } from './error.ts'
import { intervalOf, waitMs } from './retry.ts'

it.each([
  ['names no wait', undefined, [5_000, 10_000, 20_000, 30_000, 30_000]],
  ['asks for a second', 1_000, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
  ['asks for no wait at all', 0, [1_000, 2_000, 4_000]],
  ['asks for a minute', 60_000, [60_000, 60_000]],
  ['asks for a year', 31_536_000_000, [3_600_000, 3_600_000]],
])('waits longer after each failure in a row whose answer %s', (_, retryAfterMs, expected) => {
  expect(expected.map((_wait, at) => waitMs(retryAfterMs, at + 1))).toEqual(expected)
})

it.each([
  ['10 seconds after 10 seconds', 10_000, 10_000],
  ['minutes after half a minute', 300_000, 30_000],
])('is refetched after a failure, if usually every %s', (_, normalMs, expected) => {
  const error = new ApiError(503, 'Busy')
  error.retryAt = 6_000
  expect(intervalOf({ state: { error, errorUpdatedAt: 1_000 } }, normalMs)).toBe(expected)
})
