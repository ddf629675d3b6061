import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { waitUntil } from '@sluice/engines/processes'
import { fresh, opener } from './open-redis.test-support.ts'
import type { Limiter, Spent, Times } from './ports.ts'

/** What every adapter must do: run on each, on a real engine. `createUrl` gives an empty Redis. */
export function describeRedis(name: string, createUrl: () => string): void {
  const { openAnswering } = opener()
  const open = (times: Partial<Times> = {}) => openAnswering(createUrl(), { times })
  const limiterOf = async (times?: Partial<Times>) => (await open(times)).limiter

  describe(`${name}: the limiter`, () => {
    test('counts what fits whole, and nothing of what does not', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const spend = async (cost: number) => {
        const { granted, remaining } = await limiter.spend(counter, cost, 100)
        return [granted, remaining]
      }
      expect(await spend(60)).toEqual([true, 40])
      expect(await spend(41)).toEqual([false, 40])
      expect(await spend(30)).toEqual([true, 10])
      expect(await spend(11)).toEqual([false, 10])
      expect(await spend(10)).toEqual([true, 0])
      expect(await spend(1)).toEqual([false, 0])
      expect(await spend(0)).toEqual([true, 0])
    })

    test('counters have nothing to do with each other', async () => {
      const limiter = await limiterOf()
      const [a, b] = [fresh(), fresh()]
      expect(await limiter.spend(a, 5, 5)).toMatchObject({ granted: true, remaining: 0 })
      expect(await limiter.spend(b, 4, 5)).toMatchObject({ granted: true, remaining: 1 })
    })

    test('a window lasts from the first count, and tells its end', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const before = Date.now()
      const { resetAt } = await limiter.spend(counter, 1, 10)
      expect(resetAt).toBeGreaterThanOrEqual(before + 59_000)
      expect(resetAt).toBeLessThanOrEqual(Date.now() + 60_000)
      await waitUntil(() => Date.now() > before + 20, 'the clock', 1_000)
      expect((await limiter.spend(counter, 1, 10)).resetAt).toBe(resetAt)
      expect((await limiter.spend(counter, 9, 10)).resetAt).toBe(resetAt)
      expect(limiter.known(counter, 10).resetAt).toBe(resetAt)
    })

    test('when it is over, all is there again', async () => {
      const limiter = await limiterOf({ limitWindowSeconds: 1 })
      const counter = fresh()
      const { resetAt } = await limiter.spend(counter, 10, 10)
      let last: Spent | undefined
      const granted = async () => {
        last = await limiter.spend(counter, 4, 10)
        return last.granted
      }
      expect(await granted()).toBe(false)
      await waitUntil(granted, 'a new window', 5_000)
      expect(Date.now()).toBeGreaterThanOrEqual(resetAt)
      expect(last?.remaining).toBe(6)
      expect(last?.resetAt).toBeGreaterThan(resetAt)
    })

    test('what is refused begins no window', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      expect(await limiter.spend(counter, 101, 100)).toMatchObject({ granted: false, remaining: 100 })
      const { resetAt } = await limiter.spend(counter, 0, 100)
      await waitUntil(() => Date.now() > resetAt - 60_000 + 20, 'the clock', 1_000)
      expect((await limiter.spend(counter, 1, 100)).resetAt).toBeGreaterThan(resetAt)
    })

    test('a limit may change within the window', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.spend(counter, 50, 100)
      expect(await limiter.spend(counter, 1, 40)).toMatchObject({ granted: false, remaining: 0 })
      expect(await limiter.spend(counter, 100, 200)).toMatchObject({ granted: true, remaining: 50 })
      expect(await limiter.spend(counter, 1, 100)).toMatchObject({ granted: false, remaining: 0 })
      const mixed = [200, 300, 200].map(async (limit) => limiter.spend(counter, 50, limit))
      expect((await Promise.all(mixed)).map(({ granted }) => granted)).toEqual([true, true, false])
    })

    test('what is given back can be spent again, by the next call already', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.spend(counter, 100, 100)
      expect(await limiter.spend(counter, 30, 100)).toMatchObject({ granted: false })
      const given = limiter.giveBack(counter, 30, 100)
      expect(await limiter.spend(counter, 20, 100)).toMatchObject({ granted: true, remaining: 10 })
      await given
      expect(await limiter.spend(counter, 11, 100)).toMatchObject({ granted: false, remaining: 10 })
      expect(limiter.known(counter, 100).remaining).toBe(10)
    })

    test('more than was spent can’t be given back', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      await limiter.giveBack(counter, 5, 10)
      await limiter.spend(counter, 3, 10)
      await limiter.giveBack(counter, 5, 10)
      expect(limiter.known(counter, 10).remaining).toBe(10)
      expect(await limiter.spend(counter, 11, 10)).toMatchObject({ granted: false })
      expect(await limiter.spend(counter, 10, 10)).toMatchObject({ granted: true, remaining: 0 })
    })

    test('tells what it knows without being asked to count', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const before = Date.now()
      const { remaining, resetAt } = limiter.known(counter, 7)
      expect(remaining).toBe(7)
      expect(resetAt).toBeGreaterThanOrEqual(before + 60_000)
      await limiter.spend(counter, 3, 7)
      expect(limiter.known(counter, 7).remaining).toBe(4)
      expect(limiter.known(counter, 2).remaining).toBe(0)
    })

    test('of 1,000 calls at once the first are granted, to the limit exactly', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const spent = await Promise.all(Array.from({ length: 1_000 }, async () => limiter.spend(counter, 1, 300)))
      expect(spent.map(({ granted }) => granted)).toEqual(spent.map((_, index) => index < 300))
      expect(spent.map(({ remaining }) => remaining)).toEqual(spent.map((_, index) => Math.max(0, 299 - index)))
    })

    test('of calls at once whose sum does not fit, those that do are granted in their order', async () => {
      const limiter = await limiterOf()
      const counter = fresh()
      const costs = [1, 50, 60, 30, 30, 10, 9, 0, 1]
      const spent = await Promise.all(costs.map(async (cost) => limiter.spend(counter, cost, 100)))
      expect(spent.map(({ granted, remaining }) => [granted, remaining])).toEqual([
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

    test('any calls at once are answered like the same calls one after the other', async () => {
      const limiter = await limiterOf()
      const call = fc.record({
        counter: fc.constantFrom('a', 'b'),
        cost: fc.nat({ max: 30 }),
        kind: fc.constantFrom('spend', 'spend', 'spend', 'give back'),
        // Ends a group that is sent at once.
        waits: fc.boolean(),
      })
      const limits = fc.record({ a: fc.integer({ min: 1, max: 100 }), b: fc.integer({ min: 1, max: 100 }) })
      await fc.assert(
        fc.asyncProperty(fc.array(call, { maxLength: 40 }), limits, async (calls, limitOf) => {
          const prefix = fresh()
          const used = { a: 0, b: 0 }
          const expected: boolean[] = []
          const spends: Promise<Spent>[] = []
          for (const { counter, cost, kind, waits } of calls) {
            const limit = limitOf[counter as 'a']
            const give = kind === 'give back'
            const fits = used[counter as 'a'] + cost <= limit
            if (!give) expected.push(fits)
            if (give || fits) used[counter as 'a'] = Math.max(0, used[counter as 'a'] + (give ? -cost : cost))
            const done = give
              ? limiter.giveBack(prefix + counter, cost, limit)
              : spends[spends.push(Promise.resolve(limiter.spend(prefix + counter, cost, limit))) - 1]
            if (waits) await done
          }
          expect((await Promise.all(spends)).map(({ granted }) => granted)).toEqual(expected)
          for (const counter of ['a', 'b'] as const) {
            await limiter.giveBack(prefix + counter, 0, limitOf[counter])
            expect(limiter.known(prefix + counter, limitOf[counter]).remaining).toBe(limitOf[counter] - used[counter])
          }
        }),
        { numRuns: 100 },
      )
    })

    test('windows that end while calls run never let more through than the limit each', async () => {
      const limiter = await limiterOf({ limitWindowSeconds: 1 })
      const counter = fresh()
      const windows = await spendOverWindows(limiter, counter, 50)
      expect([...windows.values()].slice(0, -1)).toEqual([50, 50])
    })
  })

  describe(`${name}: sessions`, () => {
    test('are found by the hash of their token, until they are deleted', async () => {
      const { sessions } = await open()
      const [token, other] = [fresh('t'), fresh('t')]
      expect(await sessions.find(token)).toBeUndefined()
      await sessions.create(token, { keyHash: 'k1' })
      await sessions.create(other, { keyHash: 'k2' })
      expect(await sessions.find(token)).toMatchObject({ keyHash: 'k1' })
      await sessions.delete(token)
      expect(await sessions.find(token)).toBeUndefined()
      expect(await sessions.find(other)).toMatchObject({ keyHash: 'k2' })
      await sessions.delete(token)
    })

    test('tell when they end: in 24 h', async () => {
      const { sessions } = await open()
      const token = fresh('t')
      const before = Date.now()
      await sessions.create(token, { keyHash: 'k' })
      const expiresAt = (await sessions.find(token))?.expiresAt ?? 0
      expect(expiresAt).toBeGreaterThanOrEqual(before + 86_400_000 - 100)
      expect(expiresAt).toBeLessThanOrEqual(Date.now() + 86_400_000)
    })

    test('end when they were not used for the idle time', async () => {
      const { sessions } = await open({ sessionIdleMs: 200 })
      const [used, unused] = [fresh('t'), fresh('t')]
      await sessions.create(unused, { keyHash: 'k' })
      await sessions.create(used, { keyHash: 'k' })
      const expiresAt = (await sessions.find(used))?.expiresAt ?? 0
      await waitUntil(() => Date.now() > expiresAt, 'the end', 5_000)
      expect(await sessions.find(unused)).toBeUndefined()
      expect(await sessions.find(used)).toBeUndefined()
    })

    test('begin their idle time anew with each use, and end at their greatest age all the same', async () => {
      const { sessions } = await open({ sessionIdleMs: 800, sessionAgeMsMax: 2_000 })
      const token = fresh('t')
      await sessions.create(token, { keyHash: 'k' })
      const createdAt = Date.now()
      let usedAt = createdAt
      let latestEnd = 0
      const isGone = async () => {
        const found = await sessions.find(token)
        if (!found) return true
        usedAt = Date.now()
        latestEnd = Math.max(latestEnd, found.expiresAt)
        return false
      }
      await waitUntil(isGone, 'the end', 10_000)
      expect(usedAt - createdAt).toBeGreaterThan(1_600)
      expect(latestEnd).toBeLessThanOrEqual(createdAt + 2_000 + 20)
    })
  })

  describe(`${name}: answers of idempotent requests`, () => {
    const answer = { status: 201, data: { id: 'ü', list: [1, null, 'a'], empty: {} }, timestamp: 1_700_000_000_000 }

    test('are kept, and given to the same body only', async () => {
      const { answers } = await open()
      const id = fresh('i')
      expect(await answers.begin(id, 'f')).toEqual({ state: 'new' })
      expect(await answers.begin(id, 'f')).toEqual({ state: 'running' })
      expect(await answers.begin(id, 'g')).toEqual({ state: 'other' })
      await answers.finish(id, 'f', answer)
      expect(await answers.begin(id, 'f')).toEqual({ state: 'answered', answer })
      expect(await answers.begin(id, 'g')).toEqual({ state: 'other' })
      expect(await answers.begin(fresh('i'), 'f')).toEqual({ state: 'new' })
    })

    test('without data have none', async () => {
      const { answers } = await open()
      const id = fresh('i')
      await answers.begin(id, 'f')
      await answers.finish(id, 'f', { status: 200, timestamp: 1 })
      expect(await answers.begin(id, 'f')).toStrictEqual({ state: 'answered', answer: { status: 200, timestamp: 1 } })
    })

    test('do not change with what they were made of', async () => {
      const { answers } = await open()
      const id = fresh('i')
      const data = { name: 'before' }
      await answers.begin(id, 'f')
      await answers.finish(id, 'f', { status: 200, data, timestamp: 1 })
      data.name = 'after'
      expect(await answers.begin(id, 'f')).toMatchObject({ answer: { data: { name: 'before' } } })
    })

    test('the first one stays', async () => {
      const { answers } = await open()
      const id = fresh('i')
      await answers.begin(id, 'f')
      await answers.finish(id, 'f', answer)
      await answers.finish(id, 'f', { status: 200, timestamp: 2 })
      await answers.finish(id, 'g', { status: 200, timestamp: 3 })
      expect(await answers.begin(id, 'f')).toEqual({ state: 'answered', answer })
    })

    test('one of several at once carries it out', async () => {
      const { answers } = await open()
      const id = fresh('i')
      const begun = await Promise.all(Array.from({ length: 50 }, () => answers.begin(id, 'f')))
      expect(begun.map(({ state }) => state)).toEqual(['new', ...Array.from({ length: 49 }, () => 'running')])
    })

    test('a claim that is given up is free; an answer is not given up', async () => {
      const { answers } = await open()
      const id = fresh('i')
      await answers.begin(id, 'f')
      await answers.abandon(id)
      expect(await answers.begin(id, 'g')).toEqual({ state: 'new' })
      await answers.finish(id, 'g', answer)
      await answers.abandon(id)
      expect(await answers.begin(id, 'g')).toEqual({ state: 'answered', answer })
      await answers.abandon(fresh('i'))
    })

    test('a claim that nobody ends ends by itself; its late answer is kept unless the next one has one', async () => {
      const { answers } = await open({ claimMs: 300 })
      const [id, late] = [fresh('i'), fresh('i')]
      await answers.begin(id, 'f')
      await answers.begin(late, 'f')
      expect(await answers.begin(id, 'f')).toEqual({ state: 'running' })
      const isFree = async () => (await answers.begin(id, 'f')).state === 'new'
      await waitUntil(isFree, 'the end of the claim', 5_000)
      await answers.finish(late, 'f', answer)
      expect(await answers.begin(late, 'f')).toEqual({ state: 'answered', answer })
    })

    test('are forgotten when their time is over', async () => {
      const { answers } = await open({ claimMs: 50, answerMs: 300 })
      const id = fresh('i')
      await answers.begin(id, 'f')
      const finishedAt = Date.now()
      await answers.finish(id, 'f', answer)
      const isForgotten = async () => (await answers.begin(id, 'f')).state === 'new'
      await waitUntil(isForgotten, 'the end of the answer', 5_000)
      expect(Date.now() - finishedAt).toBeGreaterThanOrEqual(290)
    })
  })
}

/** Spends 1 after 1 through three windows; what each granted, by its end. */
export async function spendOverWindows(limiter: Limiter, counter: string, limit: number): Promise<Map<number, number>> {
  const windows = new Map<number, number>()
  const deadline = Date.now() + 20_000
  while (windows.size < 3) {
    if (Date.now() > deadline) throw new Error('Windows don’t end')
    const { granted, resetAt } = await limiter.spend(counter, 1, limit)
    if (granted) windows.set(resetAt, (windows.get(resetAt) ?? 0) + 1)
    else await new Promise(setImmediate)
  }
  return windows
}
