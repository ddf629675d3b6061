import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { RedisLifetimes } from '../port.ts'

/**
 * The tests that the idempotency store of every adapter passes, on a real engine. `createUrl` returns the URL of a
 * Redis without data.
 */
export function describeIdempotency(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const open = (times: Partial<RedisLifetimes> = {}) => openAnswering(createUrl(), { times })

  describe(`${name}: the idempotency store`, () => {
    const keyId = fresh('key')
    const result = { status: 201, data: { id: 'ü', list: [1, null, 'a'], empty: {} }, timestamp: 1_700_000_000_000 }

    test('repeats a result for the same body only', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'new' })
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'running' })
      expect(await idempotency.claim(id, 'g', 'one', keyId)).toEqual({ state: 'other' })
      await idempotency.complete(id, 'f', result, keyId)
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'answered', answer: result })
      expect(await idempotency.claim(id, 'g', 'one', keyId)).toEqual({ state: 'other' })
      expect(await idempotency.claim(fresh('i'), 'f', 'one', keyId)).toEqual({ state: 'new' })
    })

    test('repeats a result without data as one without data', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one', keyId)
      await idempotency.complete(id, 'f', { status: 200, timestamp: 1 }, keyId)
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toStrictEqual({
        state: 'answered',
        answer: { status: 200, timestamp: 1 },
      })
    })

    test('repeats a result as it was when it was stored', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      const data = { name: 'before' }
      await idempotency.claim(id, 'f', 'one', keyId)
      await idempotency.complete(id, 'f', { status: 200, data, timestamp: 1 }, keyId)
      data.name = 'after'
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toMatchObject({ answer: { data: { name: 'before' } } })
    })

    test('keeps the first result of a request', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one', keyId)
      await idempotency.complete(id, 'f', result, keyId)
      await idempotency.complete(id, 'f', { status: 200, timestamp: 2 }, keyId)
      await idempotency.complete(id, 'g', { status: 200, timestamp: 3 }, keyId)
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'answered', answer: result })
    })

    test('lets one of several concurrent requests claim an id', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      const claims = await Promise.all(Array.from({ length: 50 }, () => idempotency.claim(id, 'f', 'one', keyId)))
      expect(claims.map(({ state }) => state)).toEqual(['new', ...Array.from({ length: 49 }, () => 'running')])
    })

    test('frees a released claim, but keeps a stored result', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one', keyId)
      await idempotency.release(id, 'one')
      expect(await idempotency.claim(id, 'g', 'one', keyId)).toEqual({ state: 'new' })
      await idempotency.complete(id, 'g', result, keyId)
      await idempotency.release(id, 'one')
      expect(await idempotency.claim(id, 'g', 'one', keyId)).toEqual({ state: 'answered', answer: result })
      await idempotency.release(fresh('i'), 'one')
    })

    test('forgets a result after its lifetime', async () => {
      const { idempotency } = await open({ claimMs: 50, resultMs: 300 })
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one', keyId)
      const finishedAt = Date.now()
      await idempotency.complete(id, 'f', result, keyId)
      const isForgotten = async () => (await idempotency.claim(id, 'f', 'one', keyId)).state === 'new'
      await waitUntil(isForgotten, 'the end of the result')
      expect(Date.now() - finishedAt).toBeGreaterThanOrEqual(290)
    })
  })
}
