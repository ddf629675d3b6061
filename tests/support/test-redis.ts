import { randomBytes } from 'node:crypto'
import { afterAll, afterEach } from '@jest/globals'
import { Redis as Client } from 'ioredis'
import { openRedis, type OpenRedisOptions } from '@sluice/redis/open'
import type { Redis } from '@sluice/redis/port'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'

/**
 * Opens connections with the options of one test file, and closes all of them after each test; those of concurrent
 * tests, which have no such hook, after the last one.
 */
export function redisOpener(defaults: Partial<OpenRedisOptions> = {}) {
  const opened: Redis[] = []
  const closeAll = async (): Promise<void> => {
    await Promise.all(opened.splice(0).map((redis) => redis.close()))
  }
  afterEach(closeAll)
  afterAll(closeAll)

  /** Returns at once, as in a service, even if Redis does not answer yet. */
  const open = (url: string, options: Partial<OpenRedisOptions> = {}): Redis => {
    const redis = openRedis(url, { logger: silentLogger, ...defaults, ...options })
    opened.push(redis)
    return redis
  }
  return {
    open,
    /** Resolves when it answers. */
    openAnswering: async (url: string, options: Partial<OpenRedisOptions> = {}): Promise<Redis> => {
      const redis = open(url, options)
      await waitUntilRedisAnswers(redis)
      return redis
    },
  }
}

export async function waitUntilRedisAnswers(redis: Redis, timeoutMs?: number): Promise<void> {
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

/** A name that was never used: Redis outlives the test. */
export function fresh(prefix = 'c'): string {
  return `${prefix}-${randomBytes(8).toString('hex')}`
}

/** Every key with what it holds, whatever its type. */
export async function dumpRedis(url: string): Promise<Record<string, unknown>> {
  const client = new Client(url)
  try {
    const dump: Record<string, unknown> = {}
    for await (const keys of client.scanStream({ count: 1_000 })) {
      for (const key of keys as string[]) {
        const type = await client.type(key)
        dump[key] = type === 'hash' ? await client.hgetall(key) : await client.get(key)
      }
    }
    return dump
  } finally {
    client.disconnect()
  }
}

/** A user of Redis who may run every command until one is forbidden. Then only the calls of this command fail. */
export interface RedisUser {
  /** The URL with the name and the password of the user. */
  url: string
  forbid: (command: string) => Promise<void>
  allow: (command: string) => Promise<void>
  /** Removes the user. */
  drop: () => Promise<void>
}

/** Creates a user of the Redis at `url`. */
export async function createRedisUser(url: string): Promise<RedisUser> {
  const client = new Client(url)
  const [name, password] = [fresh('user'), fresh('password')]
  const change = async (...rules: string[]): Promise<void> => {
    await client.call('ACL', 'SETUSER', name, ...rules)
  }
  await change('on', `>${password}`, '~*', '&*', '+@all')
  const own = new URL(url)
  own.username = name
  own.password = password
  return {
    url: own.href,
    forbid: (command) => change(`-${command}`),
    allow: (command) => change(`+${command}`),
    drop: async () => {
      await client.call('ACL', 'DELUSER', name)
      await client.quit()
    },
  }
}
