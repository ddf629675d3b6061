import { urlVariable } from '@sluice/runtime/variables'
import { parseRedisUrl } from './redis-url.ts'

const description =
  'Redis, for rate limits, sessions and idempotent answers: redis(s)://[[user]:password@]host:6379[/database][?ca=<PEM file>&prefix=sluice:].'

/** SLUICE_REDIS_URL of a service that runs alone. */
export const redisUrl = urlVariable({
  schemes: ['redis', 'rediss'],
  description,
  checkUrl: requireDatabaseNumber,
  check: parseRedisUrl,
})

/** SLUICE_REDIS_URL where the memory of the process is the default. */
export const redisUrlOrMemory = {
  ...urlVariable({
    schemes: ['redis', 'rediss', 'memory'],
    description: `${description} memory: keeps them in this process, until it ends.`,
    checkUrl: requireDatabaseNumber,
  }),
  default: 'memory:',
}

function requireDatabaseNumber({ pathname }: URL): void {
  if (!/^\/?\d{0,5}$/.test(pathname)) throw new TypeError('must end in the number of a database')
}
