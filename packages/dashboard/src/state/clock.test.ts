import { afterAll, expect, jest, test } from '@jest/globals'
import { clock, startClock } from './clock.ts'

const dayMs = 86_400_000

afterAll(() => {
  jest.useRealTimers()
})

test('the clock goes back with that of the server, which was a day ahead', () => {
  jest.useFakeTimers()
  Object.assign(globalThis, { document: { visibilityState: 'visible', addEventListener: () => undefined } })
  startClock()
  const ahead = clock.value
  jest.setSystemTime(ahead - dayMs)
  jest.advanceTimersByTime(1_000)
  expect(clock.value).toBe(ahead - dayMs + 1_000)
})
