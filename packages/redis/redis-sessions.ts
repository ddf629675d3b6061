import type { Result } from 'ioredis'
import type { Sessions } from '@sluice/access/sessions'
import type { RedisLifetimes } from './port.ts'
import type { RedisConnection } from './redis-connection.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    createSession(key: string, keyHash: string, idleMs: number, ageMsMax: number): Result<number, Context>
    findSession(key: string, idleMs: number): Result<[keyHash: string, leftMs: number] | null, Context>
  }
}

/** Sets `now` to the time of Redis in ms, so that all processes use the same clock. */
const clock = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

const createScript = `${clock}
redis.call('hset', KEYS[1], 'key', ARGV[1], 'ends', now + ARGV[3])
return redis.call('pexpire', KEYS[1], math.min(tonumber(ARGV[2]), tonumber(ARGV[3])))
`

const findScript = `${clock}
local session = redis.call('hmget', KEYS[1], 'key', 'ends')
if not session[1] then return false end
local left = math.min(tonumber(ARGV[1]), session[2] - now)
redis.call('pexpire', KEYS[1], left)
if left <= 0 then return false end
return {session[1], left}
`

/** Keeps sessions as hashes at `session:<hash of the token>`, which expire in Redis. */
export function redisSessions(
  connection: RedisConnection,
  { sessionIdleMs, sessionAgeMsMax }: RedisLifetimes,
): Sessions {
  const { client } = connection
  client.defineCommand('createSession', { numberOfKeys: 1, lua: createScript })
  client.defineCommand('findSession', { numberOfKeys: 1, lua: findScript })
  const redisKey = (tokenHash: string): string => `session:${tokenHash}`

  return {
    async create(tokenHash, { keyHash }) {
      await connection.run(() => client.createSession(redisKey(tokenHash), keyHash, sessionIdleMs, sessionAgeMsMax))
    },
    async find(tokenHash) {
      const sentAt = Date.now()
      const found = await connection.run(() => client.findSession(redisKey(tokenHash), sessionIdleMs))
      if (found === null) return undefined
      const [keyHash, leftMs] = found
      return { keyHash, expiresAt: sentAt + leftMs } // Never later than the end in Redis.
    },
    async delete(tokenHash) {
      await connection.run(() => client.del(redisKey(tokenHash)))
    },
  }
}
