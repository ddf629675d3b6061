// One gateway process as production runs it, on the log that LOG_URL names: `file:` too, which a gateway alone refuses.
import { openEventLog } from '@sluice/event-log/open-event-log'
import { buildGateway } from '@sluice/gateway/build'
import { type Access, noAccess } from '@sluice/http/access'
import { keyCache } from '@sluice/http/key-cache'
import type { Credential } from '@sluice/http/route'
import { runService } from '@sluice/http/run-service'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import { openRedis } from '@sluice/redis/open'
import { closing } from '@sluice/runtime/supervisor'
import { listenVariables, postgresUrl, redisUrl } from '@sluice/runtime/variables'
import { announce } from './child.ts'

const endless = { granted: true, remaining: 1, resetAt: Date.now() }
const anybody: Credential = {
  keyId: 'key_anybody',
  environment: 'prod',
  scopes: ['events:write'],
  siteIds: null,
  rateLimits: null,
  expiresAt: null,
}
/** Lets everybody in, as often as they like: what is left out is what access costs. */
const openToAll: Access = {
  ...noAccess,
  keys: { authenticate: () => anybody, authenticateHash: () => anybody },
  limiter: { spend: () => Promise.resolve(endless), giveBack: () => Promise.resolve(), known: () => endless },
}

await runService({
  name: 'gateway',
  variables: { ...listenVariables(0, '127.0.0.1'), SLUICE_POSTGRES_URL: postgresUrl, SLUICE_REDIS_URL: redisUrl },
  environment: process.env,
  build: async (config, context) => {
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const log = await openEventLog(process.env.LOG_URL ?? '', { logger: context.logger })
    const redis = openRedis(config.SLUICE_REDIS_URL, { logger: context.logger })
    const keys = keyCache(keyStore(postgres), context.logger)
    return {
      service: buildGateway(
        { SLUICE_AUTO_REGISTER_SITES: true },
        { log, postgres, redis, describeDurability: () => Promise.resolve([]) },
        context,
      ),
      access: process.env.OPEN_TO_ALL === '1' ? openToAll : { keys, ...redis },
      engines: [closing('redis', redis), closing('postgres', postgres), keys, closing('log', log)],
      onReady: (server) => {
        announce(server.port())
      },
    }
  },
})
