import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { keyCache } from '@sluice/access/key-cache'
import type { SiteStore } from '@sluice/access/sites'
import { registerLog } from '@sluice/admin/migrate/migrate'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { Criteria } from '@sluice/contracts/conditions'
import type { ExportType } from '@sluice/contracts/exports'
import type { Scope } from '@sluice/contracts/scopes'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventReader } from '@sluice/event-store/event-reader'
import { buildGateway } from '@sluice/gateway/build'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { cohortStore } from '@sluice/postgres/cohorts'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { importStore } from '@sluice/postgres/imports'
import { keyStore } from '@sluice/postgres/keys'
import { shardStore } from '@sluice/postgres/shards'
import { siteStore } from '@sluice/postgres/sites'
import { buildQuery, queryAccess } from '@sluice/query/build'
import { openRedis } from '@sluice/redis/open'
import { newId } from '@sluice/runtime/ids'
import { createMetrics } from '@sluice/runtime/metrics'
import { addRule } from './alert-rules.ts'
import { capturedLogger } from './captured-logger.ts'
import { patientClock } from './clock.ts'
import { testClickHouse } from './engines/test-engines.ts'
import { addExport } from './export-jobs.ts'
import { finishExport } from './finished-export.ts'
import { patientLog } from './gateway.ts'
import { addImport } from './import-jobs.ts'
import { createTestKey, openTestPostgres, type TestPostgres } from './test-postgres.ts'
import { request, startTestService, type TestService } from './test-service.ts'
import { testSecrets } from './webhooks.ts'
import { addDelivery, addWebhook } from './webhooks.ts'

/** Every operation behind one port, as in standalone, on the engines of the test run. There is no writer. */
export interface TestSluice {
  url: string
  /** A key with the scope admin. */
  admin: string
  sites: SiteStore
  service: TestService
  postgres: TestPostgres
  /** The folder of the file log. */
  folder: string
  createKey: (parts: { scopes: readonly Scope[]; siteIds: readonly string[] | null }) => Promise<string>
  /** Creates a key for requests to name; returns its id. */
  createKeyId: (parts: { siteIds: readonly string[] | null }) => Promise<string>
  /** Creates a cohort for requests to name; returns its id. */
  createCohortId: (siteId: string) => Promise<string>
  /** Creates an import of events for requests to name; returns its id. */
  createImportId: (siteId: string) => Promise<string>
  /** Creates an alert rule for requests to name; returns its id. */
  createRuleId: (siteId: string) => Promise<string>
  /** Creates a webhook for requests to name; returns its id. */
  createWebhookId: (siteId: string) => Promise<string>
  /** Queues a delivery of a webhook; returns its id. */
  createDeliveryId: (webhookId: string) => Promise<string>
  /** Requests the erasure of what is earlier than 1971. */
  createErasureId: (siteId: string) => Promise<string>
  /** Creates a completed export, whose file is JSON, for requests to name; returns its id. */
  createExportId: (siteId: string, type: ExportType) => Promise<string>
  /** Returns the value of the `Cookie` header. */
  openSession: (key: string) => Promise<string>
  stop: () => Promise<void>
}

const limits = { events_per_minute: 10_000_000, queries_per_minute: 10_000_000, admin_per_minute: 10_000_000 }

const everybody: Criteria = { type: 'and', conditions: [{ property: 'user_id', operator: 'exists' }] }

export async function startTestSluice({ redisUrl = 'memory:' } = {}): Promise<TestSluice> {
  const captured = capturedLogger()
  const context = { logger: captured.logger, metrics: createMetrics(), clock: patientClock }
  const folder = await mkdtemp(join(tmpdir(), 'sluice-rights-'))
  const log = patientLog(await openEventLog(`file:${folder}`, { logger: captured.logger }))
  const backfill = patientLog(await openBackfillLog(`file:${folder}`, log, { logger: captured.logger }))
  const postgres = await openTestPostgres()
  await shardStore(postgres).record(1)
  await registerLog(postgres, log)
  const database = testClickHouse()
  await database.create()
  const eventReader = openEventReader(database.readerUrl, context)
  const redis = openRedis(redisUrl, captured)
  const store = keyStore(postgres)
  // When the machine is busy, engines must not look unavailable.
  const cache = keyCache(store, context, { lookupTimeoutMs: 30_000 })
  const admin = generateKey('prod')
  const settings = {
    SLUICE_ADMIN_KEY: admin,
    SLUICE_AUTO_REGISTER_SITES: true,
    SLUICE_COLLECT_URL: undefined,
  }
  const gateway = buildGateway(
    settings,
    { log, backfill, postgres, redis, describeDurability: () => Promise.resolve([]), registerTimeoutMs: 30_000 },
    context,
  )
  const blobs = await openBlobStore(`file:${folder}/blobs`)
  const query = buildQuery(
    settings,
    {
      eventReader,
      postgres,
      redis,
      blobs,
      keyCache: cache,
      secrets: testSecrets,
      targets: { allowedNetworks: ['127.0.0.0/8'] },
    },
    context,
  )
  const service = await startTestService(
    {
      routes: [...gateway.routes, ...query.routes],
      components: [cache, ...gateway.components, ...query.components],
    },
    queryAccess(cache, redis, testSecrets),
    captured,
  )
  return {
    url: service.url,
    service,
    postgres,
    folder,
    admin,
    sites: siteStore(postgres),
    createKey: async (parts) => (await createTestKey(store, { ...parts, rateLimits: limits })).key,
    createKeyId: async (parts) => (await createTestKey(store, { ...parts, scopes: ['stats:read'] })).keyId,
    createCohortId: async (siteId) => {
      const settings = { name: 'everybody', description: null, criteria: everybody }
      return (await cohortStore(postgres).create({ cohortId: `coh_${randomUUID()}`, siteId, settings })).cohortId
    },
    createErasureId: async (siteId) => {
      const { erasureId } = await erasureStore(postgres).create({
        erasureId: newId('era'),
        siteId,
        kind: 'before',
        hashes: null,
        before: 0,
        requestedAt: Date.now(),
        keyId: 'key_1',
      })
      return erasureId
    },
    createImportId: async (site) => (await addImport(importStore(postgres), { site }, Date.now())).importId,
    createExportId: async (site, type) => {
      const exports = exportStore(postgres)
      const spec = { type, format: 'json' } as const
      const { exportId } = await addExport(exports, { site, spec }, Date.now())
      await finishExport({ exports, blobs }, exportId, { content: Buffer.from('[]') })
      return exportId
    },
    createWebhookId: (siteId) => addWebhook(postgres, { siteId }),
    createRuleId: async (siteId) => {
      // A site may have 100 rules, but the matrix has more cells.
      const rules = alertRuleStore(postgres)
      const { rules: earlier } = await rules.list(siteId, { limit: 100, offset: 0 })
      if (earlier.length > 50) for (const { ruleId } of earlier) await rules.delete(ruleId, null)
      return (await addRule(postgres, { siteId })).ruleId
    },
    createDeliveryId: (webhookId) => addDelivery(postgres, webhookId),
    openSession: async (key) => {
      const { body } = await request(`${service.url}/api/v1/session`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ api_key: key }),
      })
      return `session=${(body.data as { session_token: string }).session_token}`
    },
    stop: async () => {
      await service.stop()
      await blobs.close()
      await log.close()
      await backfill.close()
      await redis.close()
      await eventReader.close()
      await database.drop()
      await postgres.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
