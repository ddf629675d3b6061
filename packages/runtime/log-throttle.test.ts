import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { logThrottle } from './log-throttle.ts'

let nowMs: number

beforeEach(() => {
  nowMs = 0
  jest.spyOn(performance, 'now').mockImplementation(() => nowMs)
})

afterEach(() => {
  jest.restoreAllMocks()
})

test('a line is due at once and then once in each interval', () => {
  const isDue = logThrottle(1_000)
  expect(isDue()).toBe(true)
  nowMs = 999
  expect(isDue()).toBe(false)
  nowMs = 1_000
  expect(isDue()).toBe(true)
  nowMs = 1_999
  expect(isDue()).toBe(false)
})

test('a check that is not due does not start an interval', () => {
  const isDue = logThrottle(1_000)
  isDue()
  nowMs = 600
  expect(isDue()).toBe(false)
  nowMs = 1_000
  expect(isDue()).toBe(true)
})

test('each kind of line has an interval of its own', () => {
  const isDue = logThrottle(1_000)
  expect([isDue('a'), isDue('b'), isDue()]).toStrictEqual([true, true, true])
  expect([isDue('a'), isDue('b'), isDue()]).toStrictEqual([false, false, false])
})

test('each throttle has its own intervals', () => {
  expect([logThrottle(1_000)('a'), logThrottle(1_000)('a')]).toStrictEqual([true, true])
})

test('the intervals of the last 100 kinds are kept, and one more kind ends all of them', () => {
  const isDue = logThrottle(1_000)
  const kinds = Array.from({ length: 100 }, (_, n) => `kind-${n}`)
  expect(kinds.every((kind) => isDue(kind))).toBe(true)
  expect(kinds.some((kind) => isDue(kind))).toBe(false)
  expect(isDue('one more')).toBe(true)
  expect(isDue('kind-0')).toBe(true)
  expect(isDue('one more')).toBe(false)
})
