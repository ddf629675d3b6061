import { expect, test } from '@jest/globals'
import { correctedClock } from './clock.ts'

test('the clock shows the corrected time', () => {
  expect(correctedClock({ now: () => 1_767_225_600_000 }).now()).toBe(1_767_225_600_000)
})

test('a sleep lasts for its time, or until its signal aborts', async () => {
  const clock = correctedClock({ now: () => Date.now() })
  const startedAt = performance.now()
  await clock.sleep(30)
  // Timers round to whole milliseconds.
  expect(performance.now() - startedAt).toBeGreaterThan(28)
  const abort = new AbortController()
  const sleeping = clock.sleep(600_000, abort.signal)
  abort.abort()
  await sleeping
  await clock.sleep(600_000, abort.signal)
})
