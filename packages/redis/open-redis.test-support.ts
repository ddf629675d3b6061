import { afterEach } from '@jest/globals'
import { randomBytes } from 'node:crypto'
import { waitUntil } from '@sluice/engines/processes'
import { openRedis, type OpenRedisOptions } from './open.ts'
import type { Redis, RedisLogger } from './ports.ts'

const nothing = () => undefined
/** A logger for tests that don't listen. */
const silent: RedisLogger = { debug: nothing, info: nothing, warn: nothing }

/** Opens Redis as the tests of one file want it, and closes all of them after each test. */
export function opener(defaults: Partial<OpenRedisOptions> = {}) {
  const opened: Redis[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((redis) => redis.close()))
  })

  /** Returns at once, as a service has it. */
  const open = (url: string, options: Partial<OpenRedisOptions> = {}): Redis => {
    const redis = openRedis(url, { logger: silent, ...defaults, ...options })
    opened.push(redis)
    return redis
  }
  return {
    open,
    /** Resolves when it answers. */
    openAnswering: async (url: string, options: Partial<OpenRedisOptions> = {}): Promise<Redis> => {
      const redis = open(url, options)
      await untilAnswering(redis)
      return redis
    },
  }
}

export async function untilAnswering(redis: Redis, timeoutMs = 10_000): Promise<void> {
  await waitUntil(
    () =>
      redis.check().then(
        () => true,
        () => false,
      ),
    'Redis answers',
    timeoutMs,
  )
}

/** A name that nobody has used: Redis outlives the test. */
export function fresh(prefix = 'c'): string {
  return `${prefix}-${randomBytes(8).toString('hex')}`
}
