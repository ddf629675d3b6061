import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Consumption } from '@sluice/access/limiter'
import { describeWithRedis, testRedis } from '../../tests/support/engines/test-engines.ts'
import { fresh, redisOpener } from '../../tests/support/test-redis.ts'
import { consumeOverWindows } from './conformance/limiter.ts'

const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })

/** Opens connections that Redis can't tell from several processes. */
const openSeveral = async (count: number, times = {}) => {
  const url = testRedis()?.url ?? ''
  return Promise.all(Array.from({ length: count }, () => openAnswering(url, { times })))
}

const grantedOf = async (calls: readonly (Consumption | Promise<Consumption> | undefined)[]) => {
  const spent = await Promise.all(calls.map(async (call) => call))
  return spent.filter((answer) => answer?.granted === true) as Consumption[]
}

describeWithRedis('redis: several processes', () => {
  test('grant exactly the limit to 1,000 concurrent calls of two processes', async () => {
    const redis = await openSeveral(2)
    for (const limit of [1, 137, 500, 999]) {
      const counter = fresh()
      const calls = Array.from({ length: 1_000 }, (_, index) => redis[index % 2]?.limiter.consume(counter, 1, limit))
      const granted = await grantedOf(calls)
      expect(granted).toHaveLength(limit)
      // Each call has another remaining part: no unit was granted twice.
      expect(new Set(granted.map(({ remaining }) => remaining)).size).toBe(limit)
    }
  })

  test('never exceed the limit together and refuse no cost that still fits', async () => {
    const redis = await openSeveral(3)
    const call = fc.record({ by: fc.nat({ max: 2 }), cost: fc.integer({ min: 1, max: 40 }), waits: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 40 }), fc.integer({ min: 1, max: 300 }), async (calls, limit) => {
        const counter = fresh()
        const consumptions: { cost: number; consumption: Consumption | Promise<Consumption> }[] = []
        for (const { by, cost, waits } of calls) {
          const consumption = redis[by]?.limiter.consume(counter, cost, limit)
          if (consumption === undefined) continue
          consumptions.push({ cost, consumption })
          if (waits) await consumption
        }
        const all = await Promise.all(
          consumptions.map(async ({ cost, consumption }) => ({ cost, ...(await consumption) })),
        )
        const sum = all.reduce((total, { cost, granted }) => total + (granted ? cost : 0), 0)
        expect(sum).toBeLessThanOrEqual(limit)
        for (const { cost, granted } of all) if (!granted) expect(sum + cost).toBeGreaterThan(limit)
      }),
      { numRuns: 100 },
    )
  })

  test('exceed a high limit, which they grant ahead of Redis, by at most a thousandth each', async () => {
    const [third, ...redis] = await openSeveral(3)
    const limit = 100_000
    const counter = fresh()
    // A process that knows no open window waits for Redis.
    await Promise.all(redis.map(async ({ limiter }) => limiter.consume(counter, 1, limit)))
    const ahead = redis[0]?.limiter.consume(counter, 10, limit)
    expect(ahead).toEqual({ granted: true, remaining: expect.any(Number), resetAt: expect.any(Number) })
    // Beyond the thousandth that may be ahead, calls wait for Redis.
    const calls = Array.from({ length: 4_000 }, (_, index) => redis[index % 2]?.limiter.consume(counter, 50, limit))
    expect(calls.some((call) => call instanceof Promise)).toBe(true)
    const granted = await grantedOf(calls)
    const sum = 12 + 50 * granted.length
    expect(sum).toBeGreaterThan(limit - 50)
    expect(sum).toBeLessThanOrEqual(limit + (2 * limit) / 1_000)
    // Everything that was granted ahead has been counted: a third process reads it.
    expect(await third?.limiter.consume(counter, Math.max(1, limit - sum + 1), limit)).toMatchObject({ granted: false })
  })

  test('share the windows of a counter', async () => {
    const [one, two] = await openSeveral(2, { limitWindowSeconds: 3 })
    if (one === undefined || two === undefined) throw new Error('not opened')
    const counter = fresh()
    const [a, b] = await Promise.all([one, two].map(({ limiter }) => consumeOverWindows(limiter, counter, 200)))
    // A window is identified by its end, which each process computes with a difference of some ms.
    const ends = [...(a ?? [])].map(([end, granted]) => {
      const other = [...(b ?? [])].find(([otherEnd]) => Math.abs(otherEnd - end) < 1_000)
      return granted + (other?.[1] ?? 0)
    })
    expect(ends.slice(0, -1)).toEqual([200, 200])
  })

  test('share sessions and results of idempotent requests', async () => {
    const [one, two] = await openSeveral(2)
    const [token, id] = [fresh('t'), fresh('i')]
    await one?.sessions.create(token, { keyHash: 'k' })
    expect(await two?.sessions.find(token)).toMatchObject({ keyHash: 'k' })
    await one?.idempotency.claim(id, 'f', 'one', 'key_1')
    expect(await two?.idempotency.claim(id, 'f', 'one', 'key_1')).toEqual({ state: 'running' })
  })
})
