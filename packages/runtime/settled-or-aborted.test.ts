import { getEventListeners } from 'node:events'
import { expect, test } from '@jest/globals'
import { settledOrAborted } from './settled-or-aborted.ts'

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
