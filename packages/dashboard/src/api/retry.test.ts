import { expect, it } from '@jest/globals'
import { waitMs } from './retry.ts'

it.each([
  ['names no wait', undefined, [5_000, 10_000, 20_000, 30_000, 30_000]],
  ['asks for a second', 1_000, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
  ['asks for no wait at all', 0, [1_000, 2_000, 4_000]],
  ['asks for a minute', 60_000, [60_000, 60_000]],
  ['asks for a year', 31_536_000_000, [3_600_000, 3_600_000]],
])('waits longer after each failure in a row whose answer %s', (_, retryAfterMs, expected) => {
  expect(expected.map((_wait, at) => waitMs(retryAfterMs, at + 1))).toEqual(expected)
})
