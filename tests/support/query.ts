import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { keyCache } from '@sluice/access/key-cache'
import type { KeyStore, NewKey } from '@sluice/access/keys'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { Environment } from '@sluice/contracts/scopes'
import { openEventReader } from '@sluice/event-store/event-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import type { Route } from '@sluice/http/route'
import { keyStore } from '@sluice/postgres/keys'
import { buildQuery, queryAccess } from '@sluice/query/build'
import { openRedis } from '@sluice/redis/open'
import { createMetrics } from '@sluice/runtime/metrics'
import { capturedLogger } from './captured-logger.ts'
import { exactClock } from './clock.ts'
import { type TestClickHouse, testClickHouse } from './engines/test-engines.ts'
import { createTestKey, openTestPostgres, type TestPostgres } from './test-postgres.ts'
import { waitUntilRedisAnswers } from './test-redis.ts'
import { type Envelope, request, startTestService, type TestService } from './test-service.ts'
import { testSecrets } from './webhooks.ts'

export interface RequestParts {
  method?: string
  /** Sent as JSON, or as it is when it is a string. */
  body?: unknown
  key?: string
  headers?: Record<string, string>
}

export interface TestQuery {
  service: TestService
  routes: readonly Route[]
  postgres: TestPostgres
  clickHouse: TestClickHouse
  blobs: BlobStore
  /** The folder of the blobs. */
  blobsFolder: string
  keys: KeyStore
  signInCodes: SignInCodes
  /** A production key that may do everything. */
  admin: string
  createKey: (parts: Partial<NewKey>) => Promise<string>
  request: (path: string, parts?: RequestParts) => Promise<{ status: number; headers: Headers; body: Envelope }>
  stop: () => Promise<void>
}

/**
 * Starts the query service on real engines, with the real HTTP server. Its ClickHouse database exists only after a test
 * migrates it.
 */
export async function startQuery({
  trustedProxies = [],
  autoRegister = true,
  clickHouseUrl,
  collectUrl,
  redisUrl = 'memory:',
  keyLookupTimeoutMs = 30_000,
}: {
  trustedProxies?: readonly string[]
  autoRegister?: boolean
  clickHouseUrl?: string
  collectUrl?: string
  redisUrl?: string
  keyLookupTimeoutMs?: number
} = {}): Promise<TestQuery> {
  const captured = capturedLogger()
  const postgres = await openTestPostgres()
  const database = testClickHouse()
  const metrics = createMetrics()
  const eventReader = openEventReader(clickHouseUrl ?? database.readerUrl, { metrics })
  const keys = keyStore(postgres)
  const admin = generateKey('prod')
  const redis = openRedis(redisUrl, { ...captured, replyTimeoutMs: 10_000 })
  // When the machine is busy, Postgres must not look unavailable.
  const cache = keyCache(keys, { logger: captured.logger, clock: exactClock }, { lookupTimeoutMs: keyLookupTimeoutMs })
  const blobsFolder = await mkdtemp(join(tmpdir(), 'sluice-blobs-'))
  const blobs = await openBlobStore(`file:${blobsFolder}`)
  const built = buildQuery(
    {
      SLUICE_ADMIN_KEY: admin,
      SLUICE_AUTO_REGISTER_SITES: autoRegister,
      SLUICE_COLLECT_URL: collectUrl,
    },
    {
      eventReader,
      postgres,
      redis,
      blobs,
      keyCache: cache,
      secrets: testSecrets,
      targets: { allowedNetworks: ['127.0.0.0/8'] },
    },
    { logger: captured.logger, metrics, clock: exactClock },
  )
  await waitUntilRedisAnswers(redis)
  const service = await startTestService(
    { ...built, components: [cache, ...built.components] },
    queryAccess(cache, redis, testSecrets),
    captured,
    { SLUICE_TRUSTED_PROXIES: trustedProxies },
  )

  return {
    service,
    routes: built.routes,
    postgres,
    clickHouse: database,
    blobs,
    blobsFolder,
    keys,
    signInCodes: redis.signInCodes,
    admin,
    createKey: async (parts) => (await createTestKey(keys, parts)).key,
    request: (path, { method = 'GET', body, key = admin, headers = {} } = {}) =>
      request(`${service.url}${path}`, {
        method,
        headers: {
          ...(key === '' ? {} : { Authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
    stop: async () => {
      await service.stop()
      await redis.close()
      await eventReader.close()
      await database.drop()
      await postgres.drop()
      await blobs.close()
      await rm(blobsFolder, { recursive: true, force: true })
    },
  }
}

/** Stores events of a site at these times (Unix ms), as the writer does. */
export async function storeEvents(
  { clickHouse }: TestQuery,
  siteId: string,
  timestamps: readonly number[],
  environment: Environment = 'prod',
): Promise<void> {
  const inserter = openEventInserter(clickHouse.url)
  const lines = timestamps.map((timestamp) => {
    const row: EventRow = {
      site_id: siteId,
      environment,
      event_type: 'x',
      timestamp,
      event_id: randomUUID(),
      received_at: timestamp,
    }
    return `${JSON.stringify(row)}\n`
  })
  await inserter.insert(
    { payloads: [Buffer.from(lines.join(''))], hasUndated: false },
    { queryId: randomUUID(), shouldReplaceRunning: false, timeoutMs: 10_000 },
  )
  await inserter.close()
}
