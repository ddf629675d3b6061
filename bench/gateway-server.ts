// One gateway process as in production, on the log that LOG_URL names, which may be a `file:` log in this benchmark.
import { type Access, denyAll } from '@sluice/access/access'
import type { Credential } from '@sluice/access/credential'
import { keyCache } from '@sluice/access/key-cache'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { buildGateway } from '@sluice/gateway/build'
import { runService } from '@sluice/http/run-service'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { postgresTime } from '@sluice/postgres/time'
import { postgresUrl } from '@sluice/postgres/variables'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { openRedis } from '@sluice/redis/open'
import { redisUrl } from '@sluice/redis/variables'
import { clockPoller } from '@sluice/runtime/clock-poller'
import { closeOnStop } from '@sluice/runtime/supervisor'
import { listenVariables } from '@sluice/runtime/variables'
import { announce } from './child.ts'

const unlimited = { granted: true, remaining: 1, resetAt: Date.now() }
const anyCredential: Credential = {
  keyId: 'key_anybody',
  name: 'test',
  environment: 'prod',
  scopes: ['events:write'],
  siteIds: null,
  rateLimits: null,
  allowedOrigins: null,
  expiresAt: null,
}
/** Accepts every request without keys and limits, so that the benchmark can measure the cost of access checks. */
const acceptAll: Access = {
  ...denyAll,
  keys: { authenticate: () => anyCredential, authenticateHash: () => anyCredential },
  limiter: { consume: () => Promise.resolve(unlimited), refund: () => Promise.resolve(), peek: () => unlimited },
}

await runService({
  name: 'gateway',
  variables: { ...listenVariables(0, '127.0.0.1'), SLUICE_POSTGRES_URL: postgresUrl, SLUICE_REDIS_URL: redisUrl },
  environment: process.env,
  build: async (config, context) => {
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const log = await openEventLog(process.env.LOG_URL ?? '', { logger: context.logger })
    await shardStore(postgres).record(1)
    const partitions = Array.from({ length: await log.partitions() }, () => undefined)
    await watermarkStore(postgres).advance(await log.id(), partitions)
    const backfill = await openBackfillLog(process.env.LOG_URL ?? '', log, { logger: context.logger })
    const redis = openRedis(config.SLUICE_REDIS_URL, { logger: context.logger })
    const keys = keyCache(keyStore(postgres), context)
    return {
      service: buildGateway(
        { SLUICE_AUTO_REGISTER_SITES: true },
        { log, backfill, postgres, redis, describeDurability: () => Promise.resolve([]) },
        context,
      ),
      access: process.env.OPEN_TO_ALL === '1' ? acceptAll : { keys, ...redis },
      engines: [
        closeOnStop('redis', redis),
        closeOnStop('postgres', postgres),
        clockPoller(context.clock, () => postgresTime(postgres)),
        keys,
        closeOnStop('log', log),
        closeOnStop('backfill log', backfill),
      ],
      onReady: (server) => announce(server.port()),
    }
  },
})
