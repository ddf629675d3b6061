import { describe, expect, test } from '@jest/globals'
import { fresh, redisOpener } from '../../../tests/support/test-redis.ts'
import type { RedisLifetimes } from '../port.ts'

/**
 * The tests that the sign-in codes of every adapter pass, on a real engine. `createUrl` returns the URL of a Redis
 * without data.
 */
export function describeSignInCodes(name: string, createUrl: () => string): void {
  const { openAnswering } = redisOpener({ replyTimeoutMs: 10_000 })
  const open = (times: Partial<RedisLifetimes> = {}) => openAnswering(createUrl(), { times })

  describe(`${name}: sign-in codes`, () => {
    test('are taken once, each with its key', async () => {
      const { signInCodes } = await open()
      const [code, other] = [fresh('c'), fresh('c')]
      expect(await signInCodes.take(code)).toBeUndefined()
      await signInCodes.create(code, { keyHash: 'k1' })
      await signInCodes.create(other, { keyHash: 'k2' })
      expect(await signInCodes.take(code)).toStrictEqual({ keyHash: 'k1' })
      expect(await signInCodes.take(code)).toBeUndefined()
      expect(await signInCodes.take(other)).toStrictEqual({ keyHash: 'k2' })
    })

    test('are found until they are taken', async () => {
      const { signInCodes } = await open()
      const code = fresh('c')
      expect(await signInCodes.find(code)).toBeUndefined()
      await signInCodes.create(code, { keyHash: 'k' })
      for (let n = 0; n < 2; n++) expect(await signInCodes.find(code)).toStrictEqual({ keyHash: 'k' })
      expect(await signInCodes.take(code)).toStrictEqual({ keyHash: 'k' })
      expect(await signInCodes.find(code)).toBeUndefined()
    })

    test('are given to one of many who take them at once', async () => {
      const { signInCodes } = await open()
      const code = fresh('c')
      await signInCodes.create(code, { keyHash: 'k' })
      const taken = await Promise.all(Array.from({ length: 20 }, () => signInCodes.take(code)))
      expect(taken.filter((each) => each !== undefined)).toStrictEqual([{ keyHash: 'k' }])
    })
  })
}
