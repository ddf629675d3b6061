import { expect, test } from '@jest/globals'
import { serverClock } from './server-clock.ts'

test('a clock is wrong only if the duration of the request does not explain the difference', () => {
  const clock = serverClock(
    () => 1_000_000,
    () => 0,
  )
  expect(clock.learn(985_000, 994_000)).toBe(0)
  expect(clock.now()).toBe(1_000_000)
  expect(clock.learn(985_000, 999_000)).toBe(-15_000)
  expect(clock.now()).toBe(985_000)
  // An answer that took long does not show that the clock is right again.
  expect(clock.learn(988_000, 994_000)).toBe(-12_000)
  expect(clock.now()).toBe(985_000)
  expect(clock.learn(1_009_000, 994_000)).toBe(0)
  expect(clock.now()).toBe(1_000_000)
})
