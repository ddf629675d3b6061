import { openMemory } from './memory.ts'
import { type Redis, type RedisLifetimes, redisLifetimes, type RedisLogger } from './port.ts'
import { openRedisServer } from './redis.ts'
import { parseRedisUrl } from './redis-url.ts'

export type { Redis } from './port.ts'

export interface OpenRedisOptions {
  logger: RedisLogger
  /** Lifetimes that differ from the defaults; for tests. */
  times?: Partial<RedisLifetimes>
  /**
   * Longest wait for a reply, 100 ms by default. Tests of stored values allow more, because the machine may be busy.
   */
  replyTimeoutMs?: number
}

/**
 * Opens the Redis of `SLUICE_REDIS_URL`: `redis://…`, `rediss://…` or `redis+sentinel://…` (see redis-url.ts), or
 * `memory:`, which keeps everything in this process until it ends. Returns without waiting for Redis. Throws an Error
 * that names every mistake in the URL.
 */
export function openRedis(url: string, { logger, times, replyTimeoutMs }: OpenRedisOptions): Redis {
  const allTimes = { ...redisLifetimes, ...times }
  if (url === 'memory:') return openMemory(allTimes)
  return openRedisServer(parseRedisUrl(url), { logger, times: allTimes, replyTimeoutMs })
}
