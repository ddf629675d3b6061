import { describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { RedisLifetimes } from '../port.ts'

/**
 * The tests that the sessions of every adapter pass, on a real engine. `createUrl` returns the URL of a Redis without
 * data.
 */
export function describeSessions(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const open = (times: Partial<RedisLifetimes> = {}) => openAnswering(createUrl(), { times })

  describe(`${name}: sessions`, () => {
    test('are found by the hash of their token until they are deleted', async () => {
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

    test('end 24 h after their last use', async () => {
      const { sessions } = await open()
      const token = fresh('t')
      const before = Date.now()
      await sessions.create(token, { keyHash: 'k' })
      const expiresAt = (await sessions.find(token))?.expiresAt ?? 0
      expect(expiresAt).toBeGreaterThanOrEqual(before + 86_400_000 - 100)
      expect(expiresAt).toBeLessThanOrEqual(Date.now() + 86_400_000)
    })

    test('end when they have not been used for the idle time', async () => {
      const { sessions } = await open({ sessionIdleMs: 200 })
      const [used, unused] = [fresh('t'), fresh('t')]
      await sessions.create(unused, { keyHash: 'k' })
      await sessions.create(used, { keyHash: 'k' })
      const expiresAt = (await sessions.find(used))?.expiresAt ?? 0
      await waitUntil(() => Date.now() > expiresAt, 'the end')
      expect(await sessions.find(unused)).toBeUndefined()
      expect(await sessions.find(used)).toBeUndefined()
    })
  })
}
