import type { ClickHouse } from '@sluice/clickhouse/client'
import { openApiDocument } from '@sluice/contracts/openapi'
import { operations } from '@sluice/contracts/operations'
import type { KeyCache } from '@sluice/http/key-cache'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import { cohortStore } from '@sluice/postgres/cohorts'
import { keyStore } from '@sluice/postgres/keys'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { Redis } from '@sluice/redis/open'
import { questionsInTurn, turnLimits } from './ask.ts'
import { completeUntil } from './complete-until.ts'
import { docsPage } from './docs/page.ts'
import { siteLookup } from './find-site.ts'
import { homePage } from './home/page.ts'
import { openApiPage } from './openapi/page.ts'
import manifest from './package.json' with { type: 'json' }
import { queryRoutes } from './router.ts'
import { createTurns } from './turns.ts'
import { takeOverAdminKey } from './take-over-admin-key.ts'

/** ClickHouse ends a question after 30 s by itself; one that is frozen must not hold its askers for longer either. */
export const questionTimeoutMs = 31_000

export interface QueryEngines {
  clickHouse: ClickHouse
  postgres: Postgres
  redis: Redis
  /** Those of the service's own process: a session is opened with a key. */
  keyCache: Pick<KeyCache, 'authenticate' | 'authenticateHash'>
}

/** The query service on its engines. */
export function buildQuery(
  config: { SLUICE_ADMIN_KEY: string | undefined; SLUICE_AUTO_REGISTER_SITES: boolean },
  { clickHouse, postgres, redis, keyCache }: QueryEngines,
  { logger, metrics }: Context,
): Service {
  const keys = keyStore(postgres)
  const store = siteStore(postgres)
  const sites = siteLookup(store, clickHouse, { autoRegister: config.SLUICE_AUTO_REGISTER_SITES })
  const until = completeUntil(watermarkStore(postgres), logger)
  const document = openApiDocument(operations, { version: manifest.version })
  return {
    routes: queryRoutes({
      clickHouse: questionsInTurn(clickHouse, createTurns(turnLimits, metrics)),
      sites,
      siteStore: store,
      keys,
      cohorts: cohortStore(postgres),
      access: { ...redis, keys: keyCache },
      completeUntil: until.now,
    }),
    pages: [homePage, openApiPage(document), docsPage(document)],
    components: [takeOverAdminKey(config.SLUICE_ADMIN_KEY, keys, logger), until],
    checks: [
      { name: 'clickhouse', required: true, check: () => clickHouse.check() },
      { name: 'postgres', required: true, check: () => postgres.check() },
      // Limits then hold for each process, and keys work: sessions alone don't.
      { name: 'redis', required: false, check: () => redis.check() },
    ],
  }
}
