import { getEventListeners } from 'node:events'
import { expect, test } from '@jest/globals'
import { settledOrAborted, settledOrStopped } from './settled-or-aborted.ts'

test('settles as the work does, and leaves no listener at the signal', async () => {
  const { signal } = new AbortController()
  expect(await settledOrAborted(Promise.resolve('result'), signal)).toBe('result')
  await expect(settledOrAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed')
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('rejects with the reason of a signal that aborts first, or has aborted', async () => {
  const stop = new AbortController()
  const never = new Promise(() => undefined)
  const waiting = settledOrAborted(never, stop.signal)
  stop.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
  await expect(settledOrAborted(never, stop.signal)).rejects.toThrow('stopped')
  expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0)
})

test('a loop gets the error of its work until it is stopped, and none afterwards', async () => {
  const stop = new AbortController()
  await expect(settledOrStopped(Promise.reject(new Error('failed')), stop.signal)).rejects.toThrow('failed')
  const never = new Promise<void>(() => undefined)
  const waiting = settledOrStopped(never, stop.signal)
  stop.abort(new Error('stopped'))
  await expect(waiting).resolves.toBeUndefined()
  await expect(settledOrStopped(Promise.reject(new Error('failed')), stop.signal)).resolves.toBeUndefined()
})
