import { describe, expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { createFairQueue } from './fair-queue.ts'

const limits = { concurrencyMax: 3, concurrencyPerKeyMax: 2, queuedPerKeyMax: 1_000, queueTimeoutMs: 60_000 }
const neverAborted = new AbortController().signal

/** Calls that the test ends, in the order in which they started. */
function calls() {
  const started: { name: string; slot: number; end: () => void }[] = []
  const call = (name: string) => (slot: number) =>
    new Promise<string>((resolve) => {
      started.push({
        name,
        slot: slot,
        end: () => resolve(name),
      })
    })
  return { started: started, call }
}

const settled = () => new Promise(setImmediate)

describe('a fair queue', () => {
  it('never exceeds its limits, runs every call, and keeps the order of each key’s calls', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 3 }), { maxLength: 40 }),
        fc.infiniteStream(fc.nat()),
        async (keys, which) => {
          const queue = createFairQueue(limits)
          const { started: started, call } = calls()
          const running: { key: string; end: () => void }[] = []
          const order = new Map<string, string[]>()
          const results = keys.map((key, index) => queue.run(String(key), neverAborted, call(`${key} ${index}`)))
          let seen = 0
          for (;;) {
            await settled()
            for (; seen < started.length; seen++) {
              const { name = '', end = () => undefined } = started[seen] ?? {}
              const [key = ''] = name.split(' ')
              running.push({ key: key, end })
              order.set(key, [...(order.get(key) ?? []), name])
            }
            expect(running.length).toBeLessThanOrEqual(limits.concurrencyMax)
            for (const { key: key } of running) {
              expect(running.filter((other) => other.key === key).length).toBeLessThanOrEqual(
                limits.concurrencyPerKeyMax,
              )
            }
            if (running.length === 0) break
            // Every call that may run is running.
            const waiting = keys.length - started.length
            const isFull = running.length === limits.concurrencyMax
            const waitsFor = keys.filter((key, index) => !started.some(({ name }) => name === `${key} ${index}`))
            if (waiting > 0 && !isFull) {
              for (const key of waitsFor) {
                expect(running.filter((other) => other.key === String(key))).toHaveLength(limits.concurrencyPerKeyMax)
              }
            }
            running.splice((which.next().value ?? 0) % running.length, 1)[0]?.end()
          }
          expect(await Promise.all(results)).toHaveLength(keys.length)
          for (const names of order.values()) {
            const indexes = names.map((name) => Number(name.split(' ')[1]))
            expect(indexes).toEqual([...indexes].sort((a, b) => a - b))
          }
        },
      ),
      { numRuns: 200 },
    )
  })

  it('starts the only call of a key at the next free slot, however many calls another key has queued', async () => {
    const queue = createFairQueue({ ...limits, concurrencyMax: 1 })
    const { started: started, call } = calls()
    const all = ['a', 'a', 'a', 'a', 'b'].map((key, index) => queue.run(key, neverAborted, call(`${key}${index}`)))
    await settled()
    expect(queue.counts()).toStrictEqual({ running: 1, waiting: 4 })
    started[0]?.end()
    await settled()
    expect(started.map(({ name }) => name)).toEqual(['a0', 'b4'])
    for (let n = 1; n < all.length; n++) {
      started[n]?.end()
      await settled()
    }
    await Promise.all(all)
    expect(queue.counts()).toStrictEqual({ running: 0, waiting: 0 })
  })

  it('starts a queued call although keys that were idle keep coming back', async () => {
    const queue = createFairQueue({ ...limits, concurrencyMax: 1 })
    const { started, call } = calls()
    const all = ['a', 'b', 'b'].map((key, index) => queue.run(key, neverAborted, call(`${key}${index}`)))
    for (let n = 0; n < 6; n++) {
      await settled()
      // In each round, another key has one call, as a key that was idle has.
      all.push(queue.run(`idle${n}`, neverAborted, call(`idle${n}`)))
      started[n]?.end()
    }
    await settled()
    expect(started.slice(0, 6).map(({ name }) => name)).toContain('b2')
    for (let n = 6; n < all.length; n++) {
      started[n]?.end()
      await settled()
    }
    await Promise.all(all)
  })

  it('passes the lowest slot that no running call of the key uses', async () => {
    const queue = createFairQueue({ ...limits, concurrencyMax: 4 })
    const { started, call } = calls()
    const all = ['a', 'a', 'b', 'a', 'a'].map((key) => queue.run(key, neverAborted, call(key)))
    await settled()
    expect(started.map(({ slot }) => slot)).toEqual([1, 2, 1])
    // The third call of the key starts after the first one has ended, the fourth one after the second.
    for (const n of [0, 1]) {
      started[n]?.end()
      await settled()
    }
    expect(started.slice(3).map(({ slot }) => slot)).toEqual([1, 2])
    for (const { end } of started) end()
    await Promise.all(all)
  })

  it('frees the slot of a call that fails', async () => {
    const queue = createFairQueue({ ...limits, concurrencyMax: 1 })
    await expect(queue.run('a', neverAborted, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await queue.run('b', neverAborted, () => Promise.resolve('yes'))).toBe('yes')
  })

  it('rejects a call beyond the queue’s limit, one whose signal aborts and one that waits too long, and runs the others', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
    try {
      const queue = createFairQueue({ ...limits, concurrencyMax: 1, queuedPerKeyMax: 2, queueTimeoutMs: 1_000 })
      const { started: started, call } = calls()
      const first = queue.run('a', neverAborted, call('first'))
      const leaver = new AbortController()
      const left = queue.run('a', leaver.signal, call('left'))
      const late = queue.run('a', neverAborted, call('late'))
      await expect(queue.run('a', neverAborted, call('beyond'))).rejects.toMatchObject({
        code: 'unavailable',
        retryAfterSeconds: 1,
      })
      leaver.abort()
      await expect(left).rejects.toMatchObject({ code: 'unavailable' })
      jest.advanceTimersByTime(999)
      const other = queue.run('b', neverAborted, call('other'))
      jest.advanceTimersByTime(1)
      await expect(late).rejects.toMatchObject({ code: 'unavailable' })
      started[0]?.end()
      await first
      await settled()
      started[1]?.end()
      expect(await other).toBe('other')
      expect(started.map(({ name }) => name)).toEqual(['first', 'other'])
    } finally {
      jest.useRealTimers()
    }
  })
})
