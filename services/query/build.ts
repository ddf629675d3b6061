import type { Access } from '@sluice/access/access'
import { encryptedIdempotency } from '@sluice/access/encrypted-idempotency'
import type { KeyCache } from '@sluice/access/key-cache'
import { openApiDocument } from '@sluice/api/openapi/document'
import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { loadSdk } from '@sluice/browser/load'
import { loadDashboard } from '@sluice/dashboard/load'
import type { EventReader } from '@sluice/event-store/event-reader'
import { pageOnDemand } from '@sluice/http/page-on-demand'
import type { Context } from '@sluice/http/run-service'
import { sdkPages } from '@sluice/http/sdk-pages'
import type { Service } from '@sluice/http/service'
import type { OutboundOptions } from '@sluice/outbound/outbound'
import { checkTarget } from '@sluice/outbound/target-url'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { cohortStore } from '@sluice/postgres/cohorts'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { importStore } from '@sluice/postgres/imports'
import { keyStore } from '@sluice/postgres/keys'
import type { Postgres } from '@sluice/postgres/open'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { webhookStore } from '@sluice/postgres/webhooks'
import type { Redis } from '@sluice/redis/open'
import { once } from '@sluice/runtime/once'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import { completeUntilPoller } from './complete-until.ts'
import { bootstrapAdminKey } from './keys/bootstrap-admin-key.ts'
import { analysisTimes } from './metrics.ts'
import manifest from './package.json' with { type: 'json' }
import { dashboardPages } from './pages/dashboard.ts'
import { docsPage } from './pages/docs/page.ts'
import { openApiPage } from './pages/openapi.ts'
import { queryRoutes } from './router.ts'
import { siteLookup } from './sites/site-lookup.ts'

export interface QueryConfig {
  SLUICE_ADMIN_KEY: string | undefined
  SLUICE_AUTO_REGISTER_SITES: boolean
  SLUICE_COLLECT_URL: string | undefined
}

export interface QueryEngines {
  /** Opened with the metrics of the service, which include the gauge of its queue. */
  eventReader: EventReader
  postgres: Postgres
  redis: Redis
  /** The files of imports and exports. */
  blobs: BlobStore
  /** The key cache of the process: sessions are created with a key. */
  keyCache: Pick<KeyCache, 'authenticate' | 'authenticateHash'>
  /** Encrypts the URLs and secrets of webhooks and alert rules. */
  secrets: SecretCipher
  /** Where webhooks may be sent to, and whether there is a server for e-mail. */
  targets: Pick<OutboundOptions, 'allowedNetworks' | 'refusedNetworks' | 'proxy' | 'smtp'>
}

/** Builds the query service on its engines. Throws when the dashboard is not built. */
export function buildQuery(
  config: QueryConfig,
  { eventReader, postgres, redis, blobs, keyCache, secrets, targets }: QueryEngines,
  { logger, metrics, clock }: Context,
): Service {
  const { sessions, signInCodes, limiter } = redis
  const keys = keyStore(postgres)
  const store = siteStore(postgres)
  const erasures = erasureStore(postgres)
  const sites = siteLookup({ ...store, siteDeletedAt: (siteId) => erasures.siteDeletedAt(siteId) }, eventReader, {
    autoRegister: config.SLUICE_AUTO_REGISTER_SITES,
  })
  const completeTimes = completeUntilPoller({ store: watermarkStore(postgres), logger, metrics, clock })
  // Not built at the start: joi needs a quarter of a second of the processor to describe all schemas.
  const document = once(() =>
    openApiDocument(operations, { version: manifest.version, collectUrl: config.SLUICE_COLLECT_URL }),
  )
  return {
    routes: queryRoutes({
      eventReader: { ...eventReader, observeAnalysis: analysisTimes(metrics) },
      sites,
      siteStore: store,
      keys,
      cohorts: cohortStore(postgres),
      erasures,
      imports: importStore(postgres),
      exports: exportStore(postgres),
      blobs,
      webhooks: webhookStore(postgres),
      alertRules: alertRuleStore(postgres),
      canSendEmail: targets.smtp !== undefined,
      secrets,
      checkTarget: (url, field) => checkTarget(url, field, targets),
      clock,
      keyCache,
      sessions,
      signInCodes,
      limiter,
      collectUrl: config.SLUICE_COLLECT_URL,
      readCompleteUntil: completeTimes.read,
    }),
    pages: [
      ...dashboardPages(loadDashboard(), config.SLUICE_COLLECT_URL),
      pageOnDemand('/openapi.json', () => openApiPage(document())),
      pageOnDemand('/docs', () => docsPage(document())),
      ...sdkPages(loadSdk()),
    ],
    components: [bootstrapAdminKey(config.SLUICE_ADMIN_KEY, keys, { logger, clock }), completeTimes],
    checks: [
      { name: 'clickhouse', required: true, check: () => eventReader.check() },
      { name: 'postgres', required: true, check: () => postgres.check() },
      // While Redis is unavailable, each process applies the rate limits by itself and keys work; only sessions fail.
      { name: 'redis', required: false, check: () => redis.check() },
      // While the blob store is unavailable, only uploads of imports, lists of their errors and downloads of exports fail.
      { name: 'blobs', required: false, check: () => blobs.check() },
    ],
  }
}

/**
 * What the checks before the handlers of this service need: the keys, and the stores of Redis. Redis holds no response
 * in plain text, because responses may hold URLs of webhooks.
 */
export function queryAccess(keys: Access['keys'], redis: Omit<Access, 'keys'>, secrets: SecretCipher): Access {
  const { limiter, sessions, idempotency } = redis
  return { keys, limiter, sessions, idempotency: encryptedIdempotency(idempotency, secrets) }
}
