import type { ClickHouse } from '@sluice/clickhouse/client'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import { keyStore } from '@sluice/postgres/keys'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { siteLookup } from './find-site.ts'
import { homePage } from './home/page.ts'
import { queryRoutes } from './router.ts'
import { takeOverAdminKey } from './take-over-admin-key.ts'

/** ClickHouse ends a question after 30 s by itself; one that is frozen must not hold its askers for longer either. */
export const questionTimeoutMs = 31_000

export interface QueryEngines {
  clickHouse: ClickHouse
  postgres: Postgres
}

/** The query service on its engines. */
export function buildQuery(
  config: { SLUICE_ADMIN_KEY: string | undefined },
  { clickHouse, postgres }: QueryEngines,
  { logger }: Context,
): Service {
  const keys = keyStore(postgres)
  return {
    routes: queryRoutes({ clickHouse, sites: siteLookup(siteStore(postgres), clickHouse), keys }),
    pages: [homePage],
    components: [takeOverAdminKey(config.SLUICE_ADMIN_KEY, keys, logger)],
    checks: [
      { name: 'clickhouse', required: true, check: () => clickHouse.check() },
      { name: 'postgres', required: true, check: () => postgres.check() },
    ],
  }
}
