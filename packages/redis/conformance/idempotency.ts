import { describe, expect, test } from '@jest/globals'
import { idempotencyLimits } from '@sluice/contracts/idempotency'
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

    test('frees no claim of a later attempt', async () => {
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

    test('ends a claim by itself and keeps a late result unless there is another', async () => {
      const { idempotency } = await open({ claimMs: 3_000 })
      const [id, late] = [fresh('i'), fresh('i')]
      await idempotency.claim(id, 'f', 'one', keyId)
      await idempotency.claim(late, 'f', 'one', keyId)
      expect(await idempotency.claim(id, 'f', 'one', keyId)).toEqual({ state: 'running' })
      const isFree = async () => (await idempotency.claim(id, 'f', 'one', keyId)).state === 'new'
      await waitUntil(isFree, 'the end of the claim')
      await idempotency.complete(late, 'f', result, keyId)
      expect(await idempotency.claim(late, 'f', 'one', keyId)).toEqual({ state: 'answered', answer: result })
    })

    test('takes no new request of a key with too many bytes of results until the first of them is forgotten', async () => {
      const { idempotency } = await open({ resultMs: 5_000 })
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
      expect(resetAt).toBeGreaterThanOrEqual(storedAt + 4_990)
      expect(resetAt).toBeLessThanOrEqual(Date.now() + 5_000)
      expect(await claim(repeated)).toEqual({ state: 'answered', answer: result })
      expect(await claim(fresh('i'), other)).toEqual({ state: 'new' })
      await waitUntil(async () => (await claim(fresh('i'))).state === 'new', 'room for another result')
      expect(Date.now()).toBeGreaterThanOrEqual(storedAt + 4_990)
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
