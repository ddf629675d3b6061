import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyCache } from '@sluice/access/key-cache'
import type { KeyStore, NewKey } from '@sluice/access/keys'
import { registerLog } from '@sluice/admin/migrate/migrate'
import type { EventRow } from '@sluice/contracts/event-columns'
import { limitMax } from '@sluice/contracts/rate-limits'
import type { Environment } from '@sluice/contracts/scopes'
import type { BlockHeaders } from '@sluice/event-log/block'
import type { EventLog } from '@sluice/event-log/log'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { buildGateway } from '@sluice/gateway/build'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { shardStore } from '@sluice/postgres/shards'
import { openRedis } from '@sluice/redis/open'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from './captured-logger.ts'
import { patientClock } from './clock.ts'
import { type TcpProxy, tcpProxy } from './tcp-proxy.ts'
import { createTestKey, openTestPostgres, patientPostgres, type TestPostgres } from './test-postgres.ts'
import { type Envelope, request, startTestService, type TestService } from './test-service.ts'

/** A row of the log. */
export interface StoredRow {
  row: EventRow
  partition: number
  headers: BlockHeaders
  /** Number of the block, in the order of reading. */
  block: number
}

export interface Answer {
  status: number
  headers: Headers
  body: Envelope
}

export interface TestGateway {
  service: TestService
  /** The metrics of the gateway's own parts. */
  metrics: Metrics
  postgres: TestPostgres
  log: EventLog
  /** The backfill log. For the gateway, no writer reads it until the test registers it in Postgres. */
  backfill: EventLog
  /** A production and a development key that may write events, and a key with all other scopes except `admin`. */
  keys: Record<Environment | 'reader', string>
  keyStore: KeyStore
  createKey: (parts: Partial<NewKey>) => Promise<string>
  /** Registers the log, for a gateway that started without. */
  registerLog: () => Promise<void>
  /** Posts JSON of `body`, or `body` itself when it is a string or bytes. */
  collect: (body: unknown, options?: PostOptions) => Promise<Answer>
  collectBatch: (body: unknown, options?: PostOptions) => Promise<Answer>
  /** The rows of a site in the log, once there are at least `count`. */
  stored: (siteId: string, count: number) => Promise<StoredRow[]>
  stop: () => Promise<void>
}

export interface PostOptions {
  key?: string
  headers?: Record<string, string>
}

export interface GatewayParts {
  /** A log that the caller opened and closes; a SQLite log of its own when left out. */
  log?: EventLog
  /** Wraps the log that the gateway publishes to. */
  wrapLog?: (log: EventLog) => EventLog
  /** Maps the URL of the test's database to the URL that the gateway uses, e.g. of a proxy. */
  postgresUrl?: (url: string) => Promise<string>
  autoRegister?: boolean
  clock?: SynchronizedClock
  /** As SLUICE_TRUSTED_PROXIES. */
  trustedProxies?: readonly string[]
  /** False: Postgres does not know the log, as without `npm run migrate`. */
  isRegistered?: boolean
  /** The number of shards that Postgres has recorded, 1 by default; null: none yet. */
  shards?: number | null
  /** See `GatewayEngines`; 30 s without `postgresUrl`. */
  registerTimeoutMs?: number
}

/** Tests send more events in a minute than the default limit allows. */
const rateLimits = { events_per_minute: limitMax }

/** On a busy machine, waits longer for the disk than a gateway does. */
export const patientLog = (log: EventLog): EventLog => ({
  ...log,
  publish: (blocks) => log.publish(blocks, { timeoutMs: 30_000 }),
})

/** A gateway on a real SQLite log, a real Postgres and the real HTTP server. */
export async function startGateway({
  log: sharedLog,
  wrapLog = (log) => log,
  postgresUrl,
  autoRegister = true,
  clock = patientClock,
  isRegistered = true,
  trustedProxies = [],
  shards = 1,
  registerTimeoutMs = postgresUrl === undefined ? 30_000 : undefined,
}: GatewayParts = {}): Promise<TestGateway> {
  const captured = capturedLogger()
  const metrics = createMetrics()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-gateway-'))
  const log = patientLog(sharedLog ?? (await openEventLog(`file:${folder}`, { logger: captured.logger })))
  const backfill = patientLog(await openBackfillLog(`file:${folder}`, log, { logger: captured.logger }))
  const database = await openTestPostgres()
  const store = keyStore(database)
  const keys = {
    prod: (await createTestKey(store, { keyId: 'key_prod', rateLimits })).key,
    dev: (await createTestKey(store, { keyId: 'key_dev', environment: 'dev', rateLimits })).key,
    reader: (
      await createTestKey(store, { keyId: 'key_reader', scopes: ['stats:read', 'cohorts:read', 'cohorts:write'] })
    ).key,
  }
  if (shards !== null) await shardStore(database).record(shards)
  if (isRegistered) await registerLog(database, log)
  const postgres: Postgres =
    postgresUrl === undefined
      ? openPostgres(database.url, patientPostgres)
      : openPostgres(await postgresUrl(database.url))
  const isPatient = postgresUrl === undefined
  const cache = keyCache(
    keyStore(postgres),
    { logger: captured.logger, clock },
    // When the machine is busy, Postgres must not look unavailable.
    isPatient ? { lookupTimeoutMs: 30_000 } : {},
  )
  const redis = openRedis('memory:', captured)
  const built = buildGateway(
    { SLUICE_AUTO_REGISTER_SITES: autoRegister },
    {
      log: wrapLog(log),
      backfill,
      postgres,
      redis,
      describeDurability: () => Promise.resolve([]),
      ...(registerTimeoutMs !== undefined && { registerTimeoutMs }),
    },
    { logger: captured.logger, metrics, clock },
  )
  const closeEngines = async (): Promise<void> => {
    if (sharedLog === undefined) await log.close()
    await backfill.close()
    await postgres.close()
    await database.drop()
    await rm(folder, { recursive: true })
  }
  const service = await startTestService(
    { ...built, components: [cache, ...built.components] },
    { ...redis, keys: cache },
    captured,
    { clock, SLUICE_TRUSTED_PROXIES: trustedProxies },
  ).catch(async (error: unknown) => {
    await closeEngines()
    throw error
  })
  const logReader = readLog(log)

  async function post(path: string, body: unknown, { key = keys.prod, headers = {} }: PostOptions = {}) {
    const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    return request(`${service.url}${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
      body: bytes,
    })
  }

  return {
    service,
    postgres: database,
    log,
    backfill,
    keys,
    keyStore: store,
    metrics,
    createKey: async (parts) => (await createTestKey(store, { rateLimits, ...parts })).key,
    registerLog: () => registerLog(database, log),
    collect: (body, options) => post('/collect', body, options),
    collectBatch: (body, options) => post('/collect/batch', body, options),
    stored: async (siteId, count) => {
      const found = (): StoredRow[] => logReader.rows.filter(({ row }) => row.site_id === siteId)
      await waitUntil(() => found().length >= count, `${count} rows of ${siteId} are in the log`)
      return found()
    },
    stop: async () => {
      await service.stop()
      await logReader.stop()
      await closeEngines()
    },
  }
}

/** A gateway whose Postgres can fail. */
export interface ProxiedGateway extends TestGateway {
  /** Between the gateway and its Postgres. */
  proxy: TcpProxy
}

/** A gateway with a proxy between it and its Postgres; `stop` ends both. */
export async function startGatewayBehindProxy(
  parts: Omit<GatewayParts, 'postgresUrl'> & { isCut?: boolean } = {},
): Promise<ProxiedGateway> {
  let opened: TcpProxy | undefined
  const gateway = await startGateway({
    ...parts,
    postgresUrl: async (url) => {
      opened = await tcpProxy(url)
      if (parts.isCut === true) await opened.cut()
      return opened.url
    },
  })
  const proxy = opened
  if (proxy === undefined) throw new Error('the gateway has not asked for the URL of Postgres')
  return {
    ...gateway,
    proxy,
    stop: async () => {
      await gateway.stop()
      await proxy.close()
    },
  }
}

/** Reads all rows of the log as they are published. */
function readLog(log: EventLog): { rows: readonly StoredRow[]; stop: () => Promise<void> } {
  const rows: StoredRow[] = []
  let block = 0
  const consumer = log.consumer({
    group: 'test',
    batchBytesMax: 1024 * 1024,
    batchRowsMax: 1_000,
    lingerMs: 0,
    onClaim: async (claim) => {
      for await (const batch of claim.batches()) {
        for (const { partition, headers, payload } of batch.blocks) {
          block++
          const lines = payload.toString().split('\n').slice(0, -1)
          for (const line of lines) rows.push({ row: JSON.parse(line) as EventRow, partition, headers, block })
        }
        await claim.commit(batch)
      }
    },
  })
  const running = consumer.run()
  return {
    rows,
    stop: async () => {
      await consumer.stop()
      await running
    },
  }
}
