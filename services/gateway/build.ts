import { siteCache } from '@sluice/access/site-cache'
import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { Redis } from '@sluice/redis/open'
import { createPublisher } from './publish/publisher.ts'
import { registeredLog } from './publish/registered-log.ts'
import { gatewayRoutes } from './router.ts'
import { watchDurability } from './watch-durability.ts'

export interface GatewayEngines {
  log: EventLog
  postgres: Postgres
  redis: Pick<Redis, 'check'>
  /** Weaknesses of the log's replication; event-log/kafka/ensure-topics.ts. */
  describeDurability: () => Promise<readonly string[]>
  /** Ms for which an event waits for Postgres to register its site; 400 by default. */
  registerTimeoutMs?: number
}

/** The gateway on its engines. It stays ready without them, because it can answer 503 or use its caches. */
export function buildGateway(
  config: { SLUICE_AUTO_REGISTER_SITES: boolean },
  { log, postgres, redis, describeDurability, registerTimeoutMs }: GatewayEngines,
  { logger, metrics, clock }: Context,
): Service {
  const durability = watchDurability(describeDurability, logger)
  const autoRegister = config.SLUICE_AUTO_REGISTER_SITES
  const sites = siteCache(siteStore(postgres), logger, { autoRegister, registerTimeoutMs })
  const registered = registeredLog(log, watermarkStore(postgres), logger)
  return {
    routes: gatewayRoutes({
      publisher: createPublisher(registered, metrics, clock),
      sites,
    }),
    pages: [],
    components: [durability, sites, registered.guard],
    warnings: durability.warnings,
    checks: [
      { name: 'log', required: false, check: () => log.check() },
      { name: 'postgres', required: false, check: () => postgres.check() },
      { name: 'redis', required: false, check: () => redis.check() },
    ],
  }
}
