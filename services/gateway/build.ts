import { siteCache } from '@sluice/access/site-cache'
import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { Redis } from '@sluice/redis/open'
import { publishByAge } from './publish/publish-by-age.ts'
import { createPublisher, publishAccount } from './publish/publisher.ts'
import { watchBackfill } from './publish/watch-backfill.ts'
import { gatewayRoutes } from './router.ts'
import { watchDurability } from './watch-durability.ts'

export interface GatewayEngines {
  log: EventLog
  /** The log of old events beside `log`. */
  backfill: EventLog
  postgres: Postgres
  redis: Pick<Redis, 'check'>
  /** Weaknesses of the log's replication; event-log/kafka/ensure-topics.ts. */
  describeDurability: () => Promise<readonly string[]>
}

/** The gateway on its engines. It stays ready without them, because it can answer 503 or use its caches. */
export function buildGateway(
  config: { SLUICE_AUTO_REGISTER_SITES: boolean },
  { log, backfill, postgres, redis, describeDurability }: GatewayEngines,
  { logger, metrics }: Context,
): Service {
  const durability = watchDurability(describeDurability, logger)
  const backfillWatch = watchBackfill({ log, backfill, store: watermarkStore(postgres) })
  const account = publishAccount(metrics)
  const sites = siteCache(siteStore(postgres), logger, { autoRegister: config.SLUICE_AUTO_REGISTER_SITES })
  return {
    routes: gatewayRoutes({
      publisher: publishByAge({
        live: createPublisher(log, account),
        backfill: createPublisher(backfill, account),
        isBackfillRead: backfillWatch.isRead,
      }),
      sites,
    }),
    pages: [],
    components: [durability, sites, backfillWatch],
    warnings: durability.warnings,
    checks: [
      { name: 'log', required: false, check: () => log.check() },
      { name: 'log of old events', required: false, check: () => backfill.check() },
      { name: 'postgres', required: false, check: () => postgres.check() },
      { name: 'redis', required: false, check: () => redis.check() },
    ],
  }
}
