import { expect, test } from '@jest/globals'
import { stopTimes } from './stop-times.ts'

test.each([
  ['a standalone', {}, { drainMs: 0, requestsMs: 7_000, totalMs: 10_000 }],
  ['a gateway', { SLUICE_DRAIN_SECONDS: 4 }, { drainMs: 4_000, requestsMs: 3_000, totalMs: 10_000 }],
  [
    'a query service, whose questions may last 31 s',
    { SLUICE_DRAIN_SECONDS: 4, SLUICE_STOP_SECONDS: 40 },
    { drainMs: 4_000, requestsMs: 33_000, totalMs: 40_000 },
  ],
  ['a longer drain', { SLUICE_DRAIN_SECONDS: 30 }, { drainMs: 30_000, requestsMs: 3_000, totalMs: 36_000 }],
])('%s has time for the requests under way', (_, config, times) => {
  expect(stopTimes(config)).toStrictEqual(times)
})

test('a stop that leaves no time for the requests under way is a mistake of the configuration', () => {
  expect(() => stopTimes({ SLUICE_DRAIN_SECONDS: 4, SLUICE_STOP_SECONDS: 9 })).toThrow(
    'SLUICE_STOP_SECONDS must be at least 10, 6 more than SLUICE_DRAIN_SECONDS (it is 9)',
  )
})
