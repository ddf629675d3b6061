import type { EventLog } from '@sluice/event-log/log'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { knownSites } from './publish/known-sites.ts'
import { createPublisher } from './publish/publisher.ts'
import { gatewayRoutes } from './router.ts'
import { watchDurability } from './watch-durability.ts'

export interface GatewayEngines {
  log: EventLog
  postgres: Postgres
  /** Weaknesses of the log's replication; event-log/ensure-topics.ts. */
  describeDurability: () => Promise<readonly string[]>
}

/** The gateway on its engines. It is ready while an engine is away: it answers 503, or works from its caches. */
export function buildGateway(
  { log, postgres, describeDurability }: GatewayEngines,
  { logger, metrics }: Context,
): Service {
  const durability = watchDurability(describeDurability, logger)
  return {
    routes: gatewayRoutes({
      publisher: createPublisher(log, metrics),
      sites: knownSites(siteStore(postgres), logger),
    }),
    pages: [],
    components: [durability],
    warnings: durability.warnings,
    checks: [
      { name: 'log', required: false, check: () => log.check() },
      { name: 'postgres', required: false, check: () => postgres.check() },
    ],
  }
}
