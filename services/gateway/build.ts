import { siteCache } from '@sluice/access/site-cache'
import { loadSdk } from '@sluice/browser/load'
import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import { sdkPages } from '@sluice/http/sdk-pages'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { Redis } from '@sluice/redis/open'
import { requiredUntilPassed } from '@sluice/runtime/health'
import { addDurabilityWarnings, rejectionCounter } from './metrics.ts'
import { hashGeneratedIds } from './publish/hash-generated-ids.ts'
import { publishByAge } from './publish/publish-by-age.ts'
import { createPublisher, createPublishState } from './publish/publisher.ts'
import { registeredLog } from './publish/registered-log.ts'
import { watchBackfill } from './publish/watch-backfill.ts'
import { gatewayRoutes } from './router.ts'
import { watchDurability } from './watch-durability.ts'

export interface GatewayEngines {
  log: EventLog
  /** The backfill log beside `log`. */
  backfill: EventLog
  postgres: Postgres
  redis: Pick<Redis, 'check'>
  /** Weaknesses of the log's replication; event-log/kafka/describe-durability.ts. */
  describeDurability: () => Promise<readonly string[]>
  /** Ms for which an event waits for Postgres to register its site; 400 by default. */
  registerTimeoutMs?: number
}

/**
 * The gateway on its engines. Once it has reached Postgres and the log, it stays ready without them, because it can
 * answer 503 or use its caches. Throws when the browser SDK is not built.
 */
export function buildGateway(
  config: { SLUICE_AUTO_REGISTER_SITES: boolean },
  { log, backfill, postgres, redis, describeDurability, registerTimeoutMs }: GatewayEngines,
  { logger, metrics, clock }: Context,
): Service {
  const durability = watchDurability(describeDurability, logger)
  addDurabilityWarnings(metrics, durability.warnings)
  const watermarks = watermarkStore(postgres)
  const registered = registeredLog(log, { watermarks, shards: shardStore(postgres) }, logger)
  const backfillWatch = watchBackfill({ log, backfill, store: watermarks })
  const publishState = createPublishState(metrics)
  const autoRegister = config.SLUICE_AUTO_REGISTER_SITES
  const sites = siteCache(siteStore(postgres), logger, { autoRegister, registerTimeoutMs })
  const byAge = publishByAge({
    live: createPublisher(registered, publishState, clock),
    backfill: createPublisher(backfill, publishState, clock),
    isBackfillRead: backfillWatch.isRead,
  })
  return {
    routes: gatewayRoutes({
      publisher: hashGeneratedIds(byAge, registered.mayHaveSeveralShards),
      sites,
      countRejection: rejectionCounter(metrics),
    }),
    pages: sdkPages(loadSdk()),
    components: [durability, sites, registered.guard, registered.watch, backfillWatch],
    warnings: () => durability.warnings() ?? [],
    checks: [
      requiredUntilPassed({ name: 'log', check: () => log.check() }),
      // Without the backfill log, the gateway still accepts all events but old ones.
      { name: 'backfill log', required: false, check: () => backfill.check() },
      requiredUntilPassed({ name: 'postgres', check: () => postgres.check() }),
      { name: 'redis', required: false, check: () => redis.check() },
    ],
  }
}
