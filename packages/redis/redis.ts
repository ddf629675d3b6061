import type { Redis, RedisLogger, Times } from './ports.ts'
import { redisAnswers } from './redis-answers.ts'
import { connectRedis } from './redis-connection.ts'
import { redisLimiter } from './redis-limiter.ts'
import { redisSessions } from './redis-sessions.ts'
import type { RedisAddress } from './redis-url.ts'

/** Counts, sessions and answers in a Redis server (6.2 or newer, or what speaks like it), shared by all processes. */
export function openRedisServer(
  address: RedisAddress,
  { logger, times }: { logger: RedisLogger; times: Times },
): Redis {
  const connection = connectRedis(address, logger)
  return {
    limiter: redisLimiter(connection, times),
    sessions: redisSessions(connection, times),
    answers: redisAnswers(connection, times),
    async check() {
      await connection.ask((client) => client.ping())
    },
    close: () => connection.close(),
  }
}
