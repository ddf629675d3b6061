import { urlVariable } from '@sluice/runtime/variables'
import { parseRedisUrl } from './redis-url.ts'

const schemes = ['redis', 'rediss', 'redis+sentinel']
const description =
  'Redis, for rate limits, sessions and idempotent answers: redis(s)://[[user]:password@]host:6379[/database][?ca=<PEM file>&prefix=sluice:], or redis+sentinel://[[user]:password@]host:26379[,host:26379]/<name of the primary>[?db=<database>&prefix=sluice:].'

/** SLUICE_REDIS_URL of a service that runs in its own process. */
export const redisUrl = urlVariable({ schemes, description, check: parseRedisUrl })

/** SLUICE_REDIS_URL where the memory of the process is the default. */
export const redisUrlOrMemory = {
  ...urlVariable({
    schemes: [...schemes, 'memory'],
    description: `${description} memory: keeps them in this process, until it ends.`,
    check: (url) => {
      if (url !== 'memory:') parseRedisUrl(url)
    },
  }),
  default: 'memory:',
}
