import { describe, expect, test } from '@jest/globals'
import type { Consumption } from '@sluice/access/limiter'
import { idempotencyLimits } from '@sluice/contracts/idempotency'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { RedisLifetimes } from '../port.ts'
import { consumeOverWindows } from './limiter.ts'

/**
 * The tests of every adapter, on a real engine, in which seconds pass: side by side, because most of them only wait.
 * `createUrl` returns the URL of a Redis without data.
 */
export function describeLifetimes(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const open = (times: Partial<RedisLifetimes>) => openAnswering(createUrl(), { times })
  const limiterOf = async (times: Partial<RedisLifetimes>) => (await open(times)).limiter

  describe(`${name}: in the course of time`, () => {
    const keyId = fresh('key')
    const result = { status: 201, data: { id: 'ü', list: [1, null, 'a'], empty: {} }, timestamp: 1_700_000_000_000 }

    test.concurrent('the limiter grants the whole limit again after the end of the window', async () => {
      const limiter = await limiterOf({ limitWindowSeconds: 3 })
      const counter = fresh()
      const { resetAt } = await limiter.consume(counter, 10, 10)
      let last: Consumption | undefined
      const granted = async () => {
        last = await limiter.consume(counter, 4, 10)
        return last.granted
      }
      expect(await granted()).toBe(false)
      await waitUntil(granted, 'a new window')
      expect(Date.now()).toBeGreaterThanOrEqual(resetAt)
      expect(last?.remaining).toBe(6)
      expect(last?.resetAt).toBeGreaterThan(resetAt)
    })

    test.concurrent('the limiter grants no more than the limit in each of several windows', async () => {
      const limiter = await limiterOf({ limitWindowSeconds: 2 })
      const counter = fresh()
      const windows = await consumeOverWindows(limiter, counter, 50)
      expect([...windows.values()].slice(0, -1)).toEqual([50, 50])
    })

    test.concurrent(
      'sessions restart their idle time with each use and end at their maximum age all the same',
      async () => {
        // A busy machine may take seconds between two uses.
        const { sessions } = await open({ sessionIdleMs: 6_000, sessionAgeMsMax: 9_000 })
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
        await waitUntil(isGone, 'the end')
        // Later than its first idle time.
        expect(usedAt - createdAt).toBeGreaterThan(6_500)
        expect(latestEnd).toBeLessThanOrEqual(createdAt + 9_000 + 20)
      },
    )

    test.concurrent('sign-in codes are gone after their time', async () => {
      const { signInCodes } = await open({ signInCodeMs: 3_000 })
      const [first, code] = [fresh('c'), fresh('c')]
      await signInCodes.create(first, { keyHash: 'k' })
      expect(await signInCodes.take(first)).toStrictEqual({ keyHash: 'k' })
      await signInCodes.create(code, { keyHash: 'k' })
      const end = Date.now() + 3_010
      await waitUntil(() => Date.now() > end, 'the end')
      expect(await signInCodes.find(code)).toBeUndefined()
      expect(await signInCodes.take(code)).toBeUndefined()
    })

    test.concurrent('the idempotency store frees no claim of a later attempt', async () => {
      const { idempotency } = await open({ claimMs: 3_000 })
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'slow', keyId)
      const isTaken = async () => (await idempotency.claim(id, 'f', 'later', keyId)).state === 'new'
      await waitUntil(isTaken, 'the end of the first claim')
      await idempotency.release(id, 'slow')
      expect(await idempotency.claim(id, 'f', 'third', keyId)).toEqual({ state: 'running' })
      await idempotency.release(id, 'later')
      expect(await idempotency.claim(id, 'f', 'third', keyId)).toEqual({ state: 'new' })
    })

    test.concurrent(
      'the idempotency store ends a claim by itself and keeps a late result unless there is another',
      async () => {
        const { idempotency } = await open({ claimMs: 3_000 })
        const [id, late] = [fresh('i'), fresh('i')]
        await idempotency.claim(id, 'f', 'one', keyId)
        await idempotency.claim(late, 'f', 'one', keyId)
        expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'running' })
        const isFree = async () => (await idempotency.claim(id, 'f', 'one', keyId)).state === 'new'
        await waitUntil(isFree, 'the end of the claim')
        await idempotency.complete(late, 'f', result, keyId)
        expect(await idempotency.claim(late, 'f', 'one', keyId)).toEqual({ state: 'answered', answer: result })
      },
    )

    test.concurrent(
      'the idempotency store takes no new request of a key with too many bytes of results until the first of them is forgotten',
      async () => {
        const { idempotency } = await open({ resultMs: 10_000 })
        const [key, other, repeated, running, failing] = [fresh('k'), fresh('k'), fresh('i'), fresh('i'), fresh('i')]
        const claim = (id: string, ofKey = key) => idempotency.claim(id, 'f', 'one', ofKey)
        expect(await claim(repeated)).toEqual({ state: 'new' })
        expect(await claim(running)).toEqual({ state: 'new' })
        const data = 'x'.repeat(idempotencyLimits.storedBytesMax / 2)
        const storedAt = Date.now()
        await idempotency.complete(repeated, 'f', result, key)
        await idempotency.complete(running, 'f', { status: 200, data, timestamp: 1 }, key)
        // Not stored again, and so not counted.
        await idempotency.complete(running, 'f', { status: 200, data, timestamp: 2 }, key)
        expect(await claim(failing)).toEqual({ state: 'new' })
        await idempotency.release(failing, 'one')
        const last = fresh('i')
        await idempotency.complete(last, 'f', { status: 200, data, timestamp: 1 }, key)

        const full = await claim(fresh('i'))
        expect(full).toEqual({ state: 'full', resetAt: expect.any(Number) })
        const { resetAt } = full as { resetAt: number }
        expect(resetAt).toBeGreaterThanOrEqual(storedAt + 9_990)
        expect(resetAt).toBeLessThanOrEqual(Date.now() + 10_000)
        expect(await claim(repeated)).toEqual({ state: 'answered', answer: result })
        expect(await claim(fresh('i'), other)).toEqual({ state: 'new' })
        await waitUntil(async () => (await claim(fresh('i'))).state === 'new', 'room for another result')
        expect(Date.now()).toBeGreaterThanOrEqual(storedAt + 9_990)
      },
    )
  })
}
