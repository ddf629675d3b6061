import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { describeWithRedis, testRedis } from '@sluice/engines/testing'
import { spendOverWindows } from './conformance.ts'
import { fresh, opener } from './open-redis.test-support.ts'
import type { Spent } from './ports.ts'

const { openAnswering } = opener()

/** Several processes, as far as Redis can tell. */
const openSeveral = async (count: number, times = {}) => {
  const url = testRedis()?.url ?? ''
  return Promise.all(Array.from({ length: count }, () => openAnswering(url, { times })))
}

const grantedOf = async (calls: readonly (Spent | Promise<Spent> | undefined)[]) => {
  const spent = await Promise.all(calls.map(async (call) => call))
  return spent.filter((answer) => answer?.granted === true) as Spent[]
}

describeWithRedis('redis: processes share a count', () => {
  test('1,000 calls at once over two get the limit exactly', async () => {
    const redis = await openSeveral(2)
    for (const limit of [1, 137, 500, 999]) {
      const counter = fresh()
      const calls = Array.from({ length: 1_000 }, (_, index) => redis[index % 2]?.limiter.spend(counter, 1, limit))
      const granted = await grantedOf(calls)
      expect(granted).toHaveLength(limit)
      // Each of them was told another rest: no two got the same unit.
      expect(new Set(granted.map(({ remaining }) => remaining)).size).toBe(limit)
    }
  })

  test('any costs over three: never above the limit, and nothing is refused that would still fit', async () => {
    const redis = await openSeveral(3)
    const call = fc.record({ by: fc.nat({ max: 2 }), cost: fc.integer({ min: 1, max: 40 }), waits: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 40 }), fc.integer({ min: 1, max: 300 }), async (calls, limit) => {
        const counter = fresh()
        const spends: { cost: number; spent: Spent | Promise<Spent> }[] = []
        for (const { by, cost, waits } of calls) {
          const spent = redis[by]?.limiter.spend(counter, cost, limit)
          if (spent === undefined) continue
          spends.push({ cost, spent })
          if (waits) await spent
        }
        const all = await Promise.all(spends.map(async ({ cost, spent }) => ({ cost, ...(await spent) })))
        const sum = all.reduce((total, { cost, granted }) => total + (granted ? cost : 0), 0)
        expect(sum).toBeLessThanOrEqual(limit)
        for (const { cost, granted } of all) if (!granted) expect(sum + cost).toBeGreaterThan(limit)
      }),
      { numRuns: 100 },
    )
  })

  test('a high limit is granted ahead of Redis, and never exceeded by more than a thousandth for each', async () => {
    const [third, ...redis] = await openSeveral(3)
    const limit = 100_000
    const counter = fresh()
    // Until a process has heard of a window it asks.
    await Promise.all(redis.map(async ({ limiter }) => limiter.spend(counter, 1, limit)))
    const ahead = redis[0]?.limiter.spend(counter, 10, limit)
    expect(ahead).toEqual({ granted: true, remaining: expect.any(Number), resetAt: expect.any(Number) })
    // Beyond the thousandth that may be ahead, Redis is asked.
    const calls = Array.from({ length: 4_000 }, (_, index) => redis[index % 2]?.limiter.spend(counter, 50, limit))
    expect(calls.some((call) => call instanceof Promise)).toBe(true)
    const granted = await grantedOf(calls)
    const sum = 12 + 50 * granted.length
    expect(sum).toBeGreaterThan(limit - 50)
    expect(sum).toBeLessThanOrEqual(limit + (2 * limit) / 1_000)
    // What was granted ahead has been counted: a third process hears of all of it.
    expect(await third?.limiter.spend(counter, Math.max(1, limit - sum + 1), limit)).toMatchObject({ granted: false })
  })

  test('and its windows', async () => {
    const [one, two] = await openSeveral(2, { limitWindowSeconds: 1 })
    if (one === undefined || two === undefined) throw new Error('not opened')
    const counter = fresh()
    const [a, b] = await Promise.all([one, two].map(({ limiter }) => spendOverWindows(limiter, counter, 200)))
    // Windows are told by their end, which each process works out for itself to some ms.
    const ends = [...(a ?? [])].map(([end, granted]) => {
      const other = [...(b ?? [])].find(([otherEnd]) => Math.abs(otherEnd - end) < 300)
      return granted + (other?.[1] ?? 0)
    })
    expect(ends.slice(0, -1)).toEqual([200, 200])
  })

  test('and sessions, and answers', async () => {
    const [one, two] = await openSeveral(2)
    const [token, id] = [fresh('t'), fresh('i')]
    await one?.sessions.create(token, { keyHash: 'k' })
    expect(await two?.sessions.find(token)).toMatchObject({ keyHash: 'k' })
    await one?.answers.begin(id, 'f')
    expect(await two?.answers.begin(id, 'f')).toEqual({ state: 'running' })
  })
})
