import { getEventListeners } from 'node:events'
import { expect, test } from '@jest/globals'
import { sleep } from './sleep.ts'

test('a sleep ends at once when its signal aborts or has aborted', async () => {
  const abort = new AbortController()
  const paused = sleep(60_000, abort.signal)
  abort.abort()
  await paused
  await sleep(60_000, abort.signal)
})

test('a sleep leaves no listener on its signal', async () => {
  const { signal } = new AbortController()
  await sleep(1, signal)
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})
