import { describe, expect, test } from '@jest/globals'
import { retry, type RetryOptions } from './retry.ts'

const delays = { firstMs: 1, longestMs: 4 }

/** A function that fails `count` times with Errors `1`, `2`, …, then resolves with the number of calls. */
function failingWork(count: number) {
  const calls: number[] = []
  const work = (): Promise<number> => {
    calls.push(performance.now())
    return calls.length <= count ? Promise.reject(new Error(String(calls.length))) : Promise.resolve(calls.length)
  }
  return { work, calls }
}

describe('retry', () => {
  test('repeats the work until it succeeds and reports each failed attempt with its number', async () => {
    const failures: string[] = []
    const onFailedAttempt: RetryOptions['onFailedAttempt'] = (error, attempt) => {
      failures.push(`${attempt}: ${error.message}`)
    }
    await expect(retry(failingWork(3).work, { delays, onFailedAttempt })).resolves.toBe(4)
    expect(failures).toEqual(['1: 1', '2: 2', '3: 3'])
  })

  test('doubles the delay up to the longest one', async () => {
    const { work, calls } = failingWork(4)
    await retry(work, { delays: { firstMs: 20, longestMs: 40 } })
    const gaps = calls.slice(1).map((at, index) => at - (calls[index] ?? 0))
    // Timers may fire up to one millisecond early.
    for (const [index, least] of [20, 40, 40, 40].entries()) expect(gaps[index]).toBeGreaterThanOrEqual(least - 1)
  })

  test('rejects with a permanent failure, which is not reported as a failed attempt', async () => {
    const failures: unknown[] = []
    const promise = retry(failingWork(9).work, {
      delays,
      isPermanent: (error) => (error as Error).message === '2',
      onFailedAttempt: (error) => failures.push(error.message),
    })
    await expect(promise).rejects.toThrow(/^2$/)
    expect(failures).toEqual(['1'])
  })

  test('rejects with the first failure after the timeout', async () => {
    const { work, calls } = failingWork(Infinity)
    await expect(retry(work, { delays, timeoutMs: 30 })).rejects.toThrow(/^\d+$/)
    expect(calls.length).toBeGreaterThan(1)
  })

  test('rejects with the reason of its signal while it waits, without another attempt', async () => {
    const { work, calls } = failingWork(Infinity)
    const abort = new AbortController()
    const promise = retry(work, {
      signal: abort.signal,
      delays: { firstMs: 60_000, longestMs: 60_000 },
      onFailedAttempt: () => {
        setImmediate(() => abort.abort(new Error('stopping')))
      },
    })
    await expect(promise).rejects.toThrow('stopping')
    expect(calls).toHaveLength(1)
  })

  test('resolves with what succeeded after its signal had aborted', async () => {
    const abort = new AbortController()
    const work = (): Promise<string> => {
      abort.abort(new Error('stopping'))
      return Promise.resolve('stored')
    }
    expect(await retry(work, { signal: abort.signal, delays })).toBe('stored')
  })

  test('does not repeat a TypeError, which is a mistake in the code', async () => {
    let calls = 0
    const work = (): Promise<never> => {
      calls++
      return Promise.reject(new TypeError('x is not a function'))
    }
    await expect(retry(work, { delays })).rejects.toThrow('x is not a function')
    expect(calls).toBe(1)
  })
})
