import { describe, expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { createTurns } from './turns.ts'

const limits = { atOnce: 3, atOncePerHolder: 2, waitingPerHolder: 1_000, waitMs: 60_000 }
const here = new AbortController().signal

/** Calls that end when told, in the order in which they began. */
function calls() {
  const begun: { name: string; rank: number; end: () => void }[] = []
  const call = (name: string) => (rank: number) =>
    new Promise<string>((resolve) => {
      begun.push({
        name,
        rank,
        end: () => {
          resolve(name)
        },
      })
    })
  return { begun, call }
}

const settled = () => new Promise(setImmediate)

describe('turns', () => {
  it('never let more run than may, in all and of a holder, let everybody in, and each holder’s in their order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 3 }), { maxLength: 40 }),
        fc.infiniteStream(fc.nat()),
        async (asks, which) => {
          const turns = createTurns(limits)
          const { begun, call } = calls()
          const running: { holder: string; end: () => void }[] = []
          const order = new Map<string, string[]>()
          const answers = asks.map((holder, index) => turns.run(String(holder), here, call(`${holder} ${index}`)))
          let seen = 0
          for (;;) {
            await settled()
            for (; seen < begun.length; seen++) {
              const { name = '', end = () => undefined } = begun[seen] ?? {}
              const [holder = ''] = name.split(' ')
              running.push({ holder, end })
              order.set(holder, [...(order.get(holder) ?? []), name])
            }
            expect(running.length).toBeLessThanOrEqual(limits.atOnce)
            for (const { holder } of running) {
              expect(running.filter((other) => other.holder === holder).length).toBeLessThanOrEqual(
                limits.atOncePerHolder,
              )
            }
            if (running.length === 0) break
            // Whoever may run does.
            const waiting = asks.length - begun.length
            const isFull = running.length === limits.atOnce
            const waitsFor = asks.filter((holder, index) => !begun.some(({ name }) => name === `${holder} ${index}`))
            if (waiting > 0 && !isFull) {
              for (const holder of waitsFor) {
                expect(running.filter((other) => other.holder === String(holder))).toHaveLength(limits.atOncePerHolder)
              }
            }
            running.splice((which.next().value ?? 0) % running.length, 1)[0]?.end()
          }
          expect(await Promise.all(answers)).toHaveLength(asks.length)
          for (const names of order.values()) {
            const indexes = names.map((name) => Number(name.split(' ')[1]))
            expect(indexes).toEqual([...indexes].sort((a, b) => a - b))
          }
        },
      ),
      { numRuns: 200 },
    )
  })

  it('a holder with one question waits for one place, however many another has waiting', async () => {
    const turns = createTurns({ ...limits, atOnce: 1 })
    const { begun, call } = calls()
    const all = ['a', 'a', 'a', 'a', 'b'].map((holder, index) => turns.run(holder, here, call(`${holder}${index}`)))
    await settled()
    begun[0]?.end()
    await settled()
    expect(begun.map(({ name }) => name)).toEqual(['a0', 'b4'])
    for (let n = 1; n < all.length; n++) {
      begun[n]?.end()
      await settled()
    }
    await Promise.all(all)
  })

  it('tell how many of the holder’s run', async () => {
    const turns = createTurns(limits)
    const { begun, call } = calls()
    const all = ['a', 'a', 'b'].map((holder) => turns.run(holder, here, call(holder)))
    await settled()
    expect(begun.map(({ rank }) => rank)).toEqual([1, 2, 1])
    for (const { end } of begun) end()
    await Promise.all(all)
  })

  it('give a place free when a call fails', async () => {
    const turns = createTurns({ ...limits, atOnce: 1 })
    await expect(turns.run('a', here, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await turns.run('b', here, () => Promise.resolve('yes'))).toBe('yes')
  })

  it('503 for one that would wait behind too many, whose client leaves, or that waits too long; the others go on', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
    try {
      const turns = createTurns({ ...limits, atOnce: 1, waitingPerHolder: 2, waitMs: 1_000 })
      const { begun, call } = calls()
      const first = turns.run('a', here, call('first'))
      const leaver = new AbortController()
      const left = turns.run('a', leaver.signal, call('left'))
      const late = turns.run('a', here, call('late'))
      await expect(turns.run('a', here, call('beyond'))).rejects.toMatchObject({ status: 503, retryAfterSeconds: 1 })
      leaver.abort()
      await expect(left).rejects.toMatchObject({ status: 503 })
      jest.advanceTimersByTime(999)
      const other = turns.run('b', here, call('other'))
      jest.advanceTimersByTime(1)
      await expect(late).rejects.toMatchObject({ status: 503 })
      begun[0]?.end()
      await first
      await settled()
      begun[1]?.end()
      expect(await other).toBe('other')
      expect(begun.map(({ name }) => name)).toEqual(['first', 'other'])
    } finally {
      jest.useRealTimers()
    }
  })
})
