import { openMemory } from './memory.ts'
import { defaultTimes, type Redis, type RedisLogger, type Times } from './ports.ts'
import { openRedisServer } from './redis.ts'
import { parseRedisUrl } from './redis-url.ts'

export type { Redis } from './ports.ts'

export interface OpenRedisOptions {
  logger: RedisLogger
  /** Tests shorten them. */
  times?: Partial<Times>
}

/**
 * Opens what `SLUICE_REDIS_URL` names: `redis://…` or `rediss://…` (see redis-url.ts), or `memory:`, which is this
 * process's own and ends with it. Returns at once, whether Redis is there or not. Throws an Error that names every
 * mistake in the URL.
 */
export function openRedis(url: string, { logger, times }: OpenRedisOptions): Redis {
  const allTimes = { ...defaultTimes, ...times }
  if (url === 'memory:') return openMemory(allTimes)
  return openRedisServer(parseRedisUrl(url), { logger, times: allTimes })
}
