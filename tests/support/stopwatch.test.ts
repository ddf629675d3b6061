import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { startStopwatch } from './stopwatch.ts'

test('a stopwatch counts the time of this process, and a stall as one tick', async () => {
  const elapsedMs = startStopwatch()
  const started = performance.now()
  await sleep(200)
  const stallEnd = performance.now() + 500
  while (performance.now() < stallEnd) {
    // The event loop can't run.
  }
  await sleep(1)
  const measured = elapsedMs()
  expect(measured).toBeGreaterThan(50)
  expect(measured).toBeLessThan(performance.now() - started - 400)
})
