import { setImmediate } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { takeLoop } from './take-loop.ts'

test('nothing is taken before the clock is compared with that of Postgres', async () => {
  let [isCompared, pauses, taken] = [false, 0, 0]
  const warnings: string[] = []
  const loop = takeLoop({
    name: 'test',
    clock: {
      now: () => Date.now(),
      isCompared: () => isCompared,
      sleep: async () => {
        pauses += 1
        await setImmediate()
      },
    },
    take: () => {
      taken += 1
      return Promise.resolve()
    },
    abort: () => undefined,
    warn: ({ error }) => warnings.push(error),
  })
  const stop = new AbortController()
  const running = loop.run?.(stop.signal)
  await waitUntil(() => pauses > 2, 'the loop has tried')
  expect(taken).toBe(0)
  isCompared = true
  await waitUntil(() => taken > 0, 'the loop takes')
  stop.abort()
  await running
  expect(warnings).toEqual([expect.stringContaining('the clock was not compared with that of Postgres yet')])
})
