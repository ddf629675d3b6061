import { randomUUID } from 'node:crypto'
import type { Redis, RedisLifetimes, RedisLogger } from './port.ts'
import { connectRedis } from './redis-connection.ts'
import { redisIdempotency } from './redis-idempotency.ts'
import { redisLimiter } from './redis-limiter.ts'
import { redisSessions } from './redis-sessions.ts'
import { redisSignInCodes } from './redis-sign-in-codes.ts'
import type { RedisAddress } from './redis-url.ts'

/** Opens a Redis server, which all processes share. It must be version 6.2 or newer, or a compatible server. */
export function openRedisServer(
  address: RedisAddress,
  {
    logger,
    times,
    replyTimeoutMs,
  }: { logger: RedisLogger; times: RedisLifetimes; replyTimeoutMs?: number | undefined },
): Redis {
  const connection = connectRedis(address, logger, replyTimeoutMs)
  const idempotency = redisIdempotency(connection, times)
  return {
    limiter: redisLimiter(connection, times),
    sessions: redisSessions(connection, times),
    signInCodes: redisSignInCodes(connection, times),
    idempotency,
    async check() {
      // PING succeeds where Redis is full, lacks rights, is a replica or part of a cluster. Two keys find a cluster.
      const id = `check:${randomUUID()}`
      await idempotency.claim(id, 'check', id, 'check')
      await idempotency.release(id, id)
    },
    close: () => connection.close(),
  }
}
