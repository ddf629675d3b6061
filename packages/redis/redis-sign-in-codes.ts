import type { SignInCodes } from '@sluice/access/sign-in-codes'
import type { RedisLifetimes } from './port.ts'
import type { RedisConnection } from './redis-connection.ts'

/** Keeps the key's hash at `sign-in:<hash of the code>`, which expires in Redis. */
export function redisSignInCodes(connection: RedisConnection, { signInCodeMs }: RedisLifetimes): SignInCodes {
  const { client } = connection
  const redisKey = (codeHash: string): string => `sign-in:${codeHash}`

  return {
    async create(codeHash, { keyHash }) {
      await connection.run(() => client.set(redisKey(codeHash), keyHash, 'PX', signInCodeMs))
    },
    async find(codeHash) {
      const keyHash = await connection.run(() => client.get(redisKey(codeHash)))
      return keyHash === null ? undefined : { keyHash }
    },
    async take(codeHash) {
      const keyHash = await connection.run(() => client.getdel(redisKey(codeHash)))
      return keyHash === null ? undefined : { keyHash }
    },
  }
}
