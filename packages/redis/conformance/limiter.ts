import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Consumption, Limiter } from '@sluice/access/limiter'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { RedisLifetimes } from '../port.ts'

/**
 * The tests that the limiter of every adapter passes, on a real engine. `createUrl` returns the URL of a Redis without
 * data.
 */
export function describeLimiter(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const limiterOf = async (times: Partial<RedisLifetimes> = {}) => (await openAnswering(createUrl(), { times })).limiter

  describe(`${name}: the limiter`, () => {
    test('counts a cost that fits whole, and nothing of a cost that does not fit', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const consume = async (cost: number) => {
        const { granted, remaining } = await limiter.consume(counter, cost, 100)
        return [granted, remaining]
      }
      expect(await consume(60)).toEqual([true, 40])
      expect(await consume(41)).toEqual([false, 40])
      expect(await consume(30)).toEqual([true, 10])
      expect(await consume(11)).toEqual([false, 10])
      expect(await consume(10)).toEqual([true, 0])
      expect(await consume(1)).toEqual([false, 0])
      expect(await consume(0)).toEqual([true, 0])
    })

    test('counts each counter by itself', async () => {
      const limiter = await limiterOf()
      const [a, b] = [fresh(), fresh()]
      expect(await limiter.consume(a, 5, 5)).toMatchObject({ granted: true, remaining: 0 })
      expect(await limiter.consume(b, 4, 5)).toMatchObject({ granted: true, remaining: 1 })
    })

    test('opens a window at the first count and returns the end of that window', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const before = Date.now()
      const { resetAt } = await limiter.consume(counter, 1, 10)
      expect(resetAt).toBeGreaterThanOrEqual(before + 59_000)
      expect(resetAt).toBeLessThanOrEqual(Date.now() + 60_000)
      await waitUntil(() => Date.now() > before + 20, 'the clock')
      expect((await limiter.consume(counter, 1, 10)).resetAt).toBe(resetAt)
      expect((await limiter.consume(counter, 9, 10)).resetAt).toBe(resetAt)
      expect(limiter.peek(counter, 10).resetAt).toBe(resetAt)
    })

    test('opens no window for a refused cost', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      expect(await limiter.consume(counter, 101, 100)).toMatchObject({ granted: false, remaining: 100 })
      const { resetAt } = await limiter.consume(counter, 0, 100)
      await waitUntil(() => Date.now() > resetAt - 60_000 + 20, 'the clock')
      expect((await limiter.consume(counter, 1, 100)).resetAt).toBeGreaterThan(resetAt)
    })

    test('applies a limit that changes within the window', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.consume(counter, 50, 100)
      expect(await limiter.consume(counter, 1, 40)).toMatchObject({ granted: false, remaining: 0 })
      expect(await limiter.consume(counter, 100, 200)).toMatchObject({ granted: true, remaining: 50 })
      expect(await limiter.consume(counter, 1, 100)).toMatchObject({ granted: false, remaining: 0 })
      const mixed = [200, 300, 200].map(async (limit) => limiter.consume(counter, 50, limit))
      expect((await Promise.all(mixed)).map(({ granted }) => granted)).toEqual([true, true, false])
    })

    test('grants a refunded cost again, to the very next call', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.consume(counter, 100, 100)
      expect(await limiter.consume(counter, 30, 100)).toMatchObject({ granted: false })
      const refunded = limiter.refund(counter, 30, 100)
      expect(await limiter.consume(counter, 20, 100)).toMatchObject({ granted: true, remaining: 10 })
      await refunded
      expect(await limiter.consume(counter, 11, 100)).toMatchObject({ granted: false, remaining: 10 })
      expect(limiter.peek(counter, 100).remaining).toBe(10)
    })

    test('refunds no more than was consumed', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.refund(counter, 5, 10)
      await limiter.consume(counter, 3, 10)
      await limiter.refund(counter, 5, 10)
      expect(limiter.peek(counter, 10).remaining).toBe(10)
      expect(await limiter.consume(counter, 11, 10)).toMatchObject({ granted: false })
      expect(await limiter.consume(counter, 10, 10)).toMatchObject({ granted: true, remaining: 0 })
    })

    test('returns the known state without counting', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const before = Date.now()
      const { remaining, resetAt } = limiter.peek(counter, 7)
      expect(remaining).toBe(7)
      expect(resetAt).toBeGreaterThanOrEqual(before + 60_000)
      await limiter.consume(counter, 3, 7)
      expect(limiter.peek(counter, 7).remaining).toBe(4)
      expect(limiter.peek(counter, 2).remaining).toBe(0)
    })

    test('grants exactly the limit to the first of 1,000 concurrent calls', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const results = await Promise.all(Array.from({ length: 1_000 }, async () => limiter.consume(counter, 1, 300)))
      expect(results.map(({ granted }) => granted)).toEqual(results.map((_, index) => index < 300))
      expect(results.map(({ remaining }) => remaining)).toEqual(results.map((_, index) => Math.max(0, 299 - index)))
    })

    test('grants the concurrent calls that fit in their order', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const costs = [1, 50, 60, 30, 30, 10, 9, 0, 1]
      const results = await Promise.all(costs.map(async (cost) => limiter.consume(counter, cost, 100)))
      expect(results.map(({ granted, remaining }) => [granted, remaining])).toEqual([
        [true, 99],
        [true, 49],
        [false, 49],
        [true, 19],
        [false, 19],
        [true, 9],
        [true, 0],
        [true, 0],
        [false, 0],
      ])
    })

    test('answers concurrent calls like the same calls in sequence', async () => {
      const limiter = await limiterOf()
      const call = fc.record({
        counter: fc.constantFrom('a', 'b'),
        cost: fc.nat({ max: 30 }),
        kind: fc.constantFrom('consume', 'consume', 'consume', 'refund'),
        // True for the last call of a group of concurrent calls.
        waits: fc.boolean(),
      })
      const limits = fc.record({ a: fc.integer({ min: 1, max: 100 }), b: fc.integer({ min: 1, max: 100 }) })
      await fc.assert(
        fc.asyncProperty(fc.array(call, { maxLength: 40 }), limits, async (calls, limitOf) => {
          const prefix = fresh()
          const consumed = { a: 0, b: 0 }
          const expected: boolean[] = []
          const consumptions: Promise<Consumption>[] = []
          for (const { counter, cost, kind, waits } of calls) {
            const limit = limitOf[counter as 'a']
            const isRefund = kind === 'refund'
            const fits = consumed[counter as 'a'] + cost <= limit
            if (!isRefund) expected.push(fits)
            if (isRefund || fits)
              consumed[counter as 'a'] = Math.max(0, consumed[counter as 'a'] + (isRefund ? -cost : cost))
            const done = isRefund
              ? limiter.refund(prefix + counter, cost, limit)
              : consumptions[consumptions.push(Promise.resolve(limiter.consume(prefix + counter, cost, limit))) - 1]
            if (waits) await done
          }
          expect((await Promise.all(consumptions)).map(({ granted }) => granted)).toEqual(expected)
          for (const counter of ['a', 'b'] as const) {
            await limiter.refund(prefix + counter, 0, limitOf[counter])
            expect(limiter.peek(prefix + counter, limitOf[counter]).remaining).toBe(
              limitOf[counter] - consumed[counter],
            )
          }
        }),
        { numRuns: 100 },
      )
    })
  })
}

/** Consumes 1 again and again through three windows; returns the granted sum of each window by the window's end. */
export async function consumeOverWindows(
  limiter: Limiter,
  counter: string,
  limit: number,
): Promise<Map<number, number>> {
  const windows = new Map<number, number>()
  const deadline = Date.now() + 60_000
  while (windows.size < 3) {
    if (Date.now() > deadline) throw new Error('Windows don’t end')
    const { granted, resetAt } = await limiter.consume(counter, 1, limit)
    if (granted) windows.set(resetAt, (windows.get(resetAt) ?? 0) + 1)
    else await new Promise(setImmediate)
  }
  return windows
}
