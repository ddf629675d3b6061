import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { Times } from '../port.ts'

/**
 * The tests that the idempotency store of every adapter passes, on a real engine. `createUrl` returns the URL of a
 * Redis without data.
 */
export function describeIdempotency(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const open = (times: Partial<Times> = {}) => openAnswering(createUrl(), { times })

  describe(`${name}: the idempotency store`, () => {
    const result = { status: 201, data: { id: 'ü', list: [1, null, 'a'], empty: {} }, timestamp: 1_700_000_000_000 }

    test('repeats a result for the same body only', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      expect(await idempotency.claim(id, 'f', 'one')).toEqual({ state: 'new' })
      expect(await idempotency.claim(id, 'f', 'one')).toEqual({ state: 'running' })
      expect(await idempotency.claim(id, 'g', 'one')).toEqual({ state: 'other' })
      await idempotency.complete(id, 'f', result)
      expect(await idempotency.claim(id, 'f', 'one')).toEqual({ state: 'answered', answer: result })
      expect(await idempotency.claim(id, 'g', 'one')).toEqual({ state: 'other' })
      expect(await idempotency.claim(fresh('i'), 'f', 'one')).toEqual({ state: 'new' })
    })

    test('repeats a result without data as one without data', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one')
      await idempotency.complete(id, 'f', { status: 200, timestamp: 1 })
      expect(await idempotency.claim(id, 'f', 'one')).toStrictEqual({
        state: 'answered',
        answer: { status: 200, timestamp: 1 },
      })
    })

    test('repeats a result as it was when it was stored', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      const data = { name: 'before' }
      await idempotency.claim(id, 'f', 'one')
      await idempotency.complete(id, 'f', { status: 200, data, timestamp: 1 })
      data.name = 'after'
      expect(await idempotency.claim(id, 'f', 'one')).toMatchObject({ answer: { data: { name: 'before' } } })
    })

    test('keeps the first result of a request', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one')
      await idempotency.complete(id, 'f', result)
      await idempotency.complete(id, 'f', { status: 200, timestamp: 2 })
      await idempotency.complete(id, 'g', { status: 200, timestamp: 3 })
      expect(await idempotency.claim(id, 'f', 'one')).toEqual({ state: 'answered', answer: result })
    })

    test('lets one of several concurrent requests claim an id', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      const claims = await Promise.all(Array.from({ length: 50 }, () => idempotency.claim(id, 'f', 'one')))
      expect(claims.map(({ state }) => state)).toEqual(['new', ...Array.from({ length: 49 }, () => 'running')])
    })

    test('frees a released claim, but keeps a stored result', async () => {
      const { idempotency } = await open()
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one')
      await idempotency.release(id, 'one')
      expect(await idempotency.claim(id, 'g', 'one')).toEqual({ state: 'new' })
      await idempotency.complete(id, 'g', result)
      await idempotency.release(id, 'one')
      expect(await idempotency.claim(id, 'g', 'one')).toEqual({ state: 'answered', answer: result })
      await idempotency.release(fresh('i'), 'one')
    })

    test('frees no claim of a later attempt', async () => {
      const { idempotency } = await open({ claimMs: 3_000 })
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'slow')
      const isTaken = async () => (await idempotency.claim(id, 'f', 'later')).state === 'new'
      await waitUntil(isTaken, 'the end of the first claim')
      await idempotency.release(id, 'slow')
      expect(await idempotency.claim(id, 'f', 'third')).toEqual({ state: 'running' })
      await idempotency.release(id, 'later')
      expect(await idempotency.claim(id, 'f', 'third')).toEqual({ state: 'new' })
    })

    test('ends a claim by itself and keeps a late result unless there is another', async () => {
      const { idempotency } = await open({ claimMs: 3_000 })
      const [id, late] = [fresh('i'), fresh('i')]
      await idempotency.claim(id, 'f', 'one')
      await idempotency.claim(late, 'f', 'one')
      expect(await idempotency.claim(id, 'f', 'one')).toEqual({ state: 'running' })
      const isFree = async () => (await idempotency.claim(id, 'f', 'one')).state === 'new'
      await waitUntil(isFree, 'the end of the claim')
      await idempotency.complete(late, 'f', result)
      expect(await idempotency.claim(late, 'f', 'one')).toEqual({ state: 'answered', answer: result })
    })

    test('forgets a result after its lifetime', async () => {
      const { idempotency } = await open({ claimMs: 50, resultMs: 300 })
      const id = fresh('i')
      await idempotency.claim(id, 'f', 'one')
      const finishedAt = Date.now()
      await idempotency.complete(id, 'f', result)
      const isForgotten = async () => (await idempotency.claim(id, 'f', 'one')).state === 'new'
      await waitUntil(isForgotten, 'the end of the result')
      expect(Date.now() - finishedAt).toBeGreaterThanOrEqual(290)
    })
  })
}
