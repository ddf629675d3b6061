import { describe, expect, test } from '@jest/globals'
import { concurrencyLimit } from './concurrency-limit.ts'

describe('concurrencyLimit', () => {
  test('never runs more functions than allowed and starts them in the order of the calls', async () => {
    const limit = concurrencyLimit(2)
    const started: number[] = []
    let running = 0
    let runningMost = 0
    const work = (index: number) => async (): Promise<number> => {
      started.push(index)
      runningMost = Math.max(runningMost, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return index
    }
    const indexes = [0, 1, 2, 3, 4, 5]
    await expect(Promise.all(indexes.map((index) => limit(work(index))))).resolves.toEqual(indexes)
    expect(started).toEqual(indexes)
    expect(runningMost).toBe(2)
  })

  test('starts the next function after one that failed', async () => {
    const limit = concurrencyLimit(1)
    const failed = limit(() => Promise.reject(new Error('no disk')))
    const next = limit(() => Promise.resolve('done'))
    await expect(failed).rejects.toThrow('no disk')
    await expect(next).resolves.toBe('done')
  })
})
