import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { findFreePort } from '@sluice/engines/processes'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { startRedis } from '../tests/support/engines/redis.ts'
import { testSecretsKey } from '../tests/support/secrets-key.ts'
import { type ServiceName, type ServiceProcess, spawnProgram, startService } from '../tests/support/service-process.ts'

/** A service as in production, with its metrics. */
export interface MeasuredService extends ServiceProcess {
  /** Returns the value of a metric, the largest one when the metric has labels. */
  figure(name: string): Promise<number>
  /** Resident memory in MiB, the highest since its start. */
  rssPeakMib(): Promise<number>
}

/** A complete Sluice on real engines: a gateway, a writer and a query service, each in a process of its own. */
export interface SluiceRig {
  key: string
  clickHouseUrl: string
  postgresUrl: string
  blobsUrl: string
  gateway: MeasuredService
  writer: MeasuredService
  query: MeasuredService
  /** Process ids of the services and the engines. */
  pids: Record<'gateway' | 'writer' | 'query' | 'clickhouse' | 'kafka' | 'postgres' | 'redis', number>
  /** Starts a worker, which the caller stops. */
  startWorker(): Promise<MeasuredService>
  stop(): Promise<void>
}

export async function startSluice(): Promise<SluiceRig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const [kafka, clickHouse, postgres, redis] = await Promise.all([
    startKafka({ dir: join(folder, 'kafka'), isOptimised: true }),
    startClickHouse({ dir: join(folder, 'clickhouse') }),
    startPostgres({ dir: join(folder, 'postgres') }),
    startRedis({ dir: join(folder, 'redis') }),
  ])
  const key = generateKey('prod')
  const log = { SLUICE_LOG_URL: `kafka://${kafka.brokers}/bench.events` }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const database = { SLUICE_POSTGRES_URL: postgres.url }
  const counters = { SLUICE_REDIS_URL: redis.url }
  const files = { SLUICE_BLOBS_URL: `file:${join(folder, 'blobs')}`, SLUICE_SECRETS_KEY: testSecretsKey }
  const migrated = await spawnProgram('admin/migrate/main', { ...log, ...store, ...database })
  if ((await migrated.exited) !== 0) throw new Error(`migrate failed: ${migrated.output()}`)
  const query = await startMeasured('query', { ...store, ...database, ...counters, ...files, SLUICE_ADMIN_KEY: key })
  const gateway = await startMeasured('gateway', { ...log, ...database, ...counters })
  const writer = await startMeasured('writer', { ...log, ...store, ...database })
  return {
    key,
    clickHouseUrl: clickHouse.url,
    postgresUrl: postgres.url,
    blobsUrl: files.SLUICE_BLOBS_URL,
    gateway,
    writer,
    query,
    pids: {
      gateway: gateway.pid,
      writer: writer.pid,
      query: query.pid,
      clickhouse: clickHouse.pid,
      kafka: kafka.pid,
      postgres: postgres.pid,
      redis: redis.pid,
    },
    startWorker: () => startMeasured('worker', { ...log, ...store, ...database, ...files }),
    stop: async () => {
      await Promise.all([gateway.stop(), writer.stop(), query.stop()])
      await Promise.all([kafka.stop(), clickHouse.stop(), postgres.stop(), redis.stop()])
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Reads the age of the oldest row that a writer has not stored, in seconds, once a second until `stop`. */
export function sampleLag(writer: Pick<MeasuredService, 'figure'>): { lags: readonly number[]; stop(): Promise<void> } {
  const lags: number[] = []
  let sampling: Promise<void> | undefined
  const timer = setInterval(() => {
    sampling ??= writer.figure('sluice_writer_freshness_seconds').then((lag) => {
      lags.push(lag)
      sampling = undefined
    })
  }, 1_000)
  return {
    lags,
    stop: async () => {
      clearInterval(timer)
      await sampling
    },
  }
}

/** Starts a service with its metrics. */
export async function startMeasured(name: ServiceName, environment: Record<string, string>): Promise<MeasuredService> {
  const metricsPort = await findFreePort()
  const service = await startService(name, { ...environment, SLUICE_METRICS_PORT: String(metricsPort) })
  return {
    ...service,
    figure: async (figure) => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
      return Math.max(
        0,
        ...[...text.matchAll(new RegExp(`^${figure}(?:\\{.*\\})? (\\S+)$`, 'gm'))].map((at) => Number(at[1])),
      )
    },
    rssPeakMib: async () => {
      const status = await readFile(`/proc/${service.pid}/status`, 'utf8')
      return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024)
    },
  }
}
