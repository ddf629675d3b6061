import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { type EmbeddedClickHouse, startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { startKafka } from '../support/engines/kafka.ts'
import { startRedis } from '../support/engines/redis.ts'
import { type Haproxy, startHaproxy } from '../support/haproxy.ts'
import { testSecretsKey } from '../support/secrets-key.ts'
import {
  type Keep,
  keepEveryRow,
  makeFolder,
  migrate,
  type RestartableService,
  type StartOptions,
  startRestartable,
  startWith,
  together,
} from './rig-parts.ts'

export const rolledServices = ['gateway', 'query', 'writer', 'worker'] as const

export type RolledService = (typeof rolledServices)[number]

type Pair = readonly [RestartableService, RestartableService]

/** Two processes of each service, one of each engine, and HAProxy in front of the gateways and the query services. */
export interface RollingRig {
  /** An admin key. */
  key: string
  balancer: Haproxy
  services: Readonly<Record<RolledService, Pair>>
  gateways: Pair
  clickHouse: EmbeddedClickHouse
  /** Kafka's URL. */
  logUrl: string
  /** Ends everything and removes its data. */
  stop(): Promise<void>
}

/** Two for each writer, in the live and in the backfill topic. */
const partitions = 4
/** The default of gateways and query services. */
const drain = { SLUICE_DRAIN_SECONDS: '4' }

/**
 * Starts all parts with empty data folders in a temporary folder; the services run from another clone if `root` names
 * one. The schemas are always those of this build. ClickHouse merges as in production, so that questions stay as fast,
 * but keeps rows that are stored twice.
 */
export function startRollingRig({ root }: { root?: URL | undefined } = {}): Promise<RollingRig> {
  return startWith((keep) => startParts(keep, root && { root }))
}

async function startParts(keep: Keep, options: StartOptions | undefined): Promise<Omit<RollingRig, 'stop'>> {
  const folder = await keep(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const [kafka, clickHouse, postgres, redis] = await together([
    keep(startKafka({ dir: join(folder, 'kafka') }), (engine) => engine.stop()),
    keep(startClickHouse({ dir: join(folder, 'clickhouse') }), (engine) => engine.stop()),
    keep(startPostgres({ dir: join(folder, 'postgres'), durable: false }), (engine) => engine.stop()),
    keep(startRedis({ dir: join(folder, 'redis') }), (engine) => engine.stop()),
  ])
  const logUrl = `kafka://${kafka.brokers}/rolling.events`
  const log = { SLUICE_LOG_URL: logUrl }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const database = { SLUICE_POSTGRES_URL: postgres.url }
  const counters = { SLUICE_REDIS_URL: redis.url }
  const files = { SLUICE_BLOBS_URL: `file:${join(folder, 'blobs')}`, SLUICE_SECRETS_KEY: testSecretsKey }
  const behindProxy = { ...drain, SLUICE_TRUSTED_PROXIES: 'loopback' }
  await ensureTopics(logUrl, { partitions })
  await migrate({ ...log, ...store, ...database })
  await keepEveryRow(clickHouse.url)

  const key = generateKey('prod')
  const environments = {
    gateway: { ...log, ...database, ...counters, ...behindProxy },
    query: { ...store, ...database, ...counters, ...files, ...behindProxy, SLUICE_ADMIN_KEY: key },
    writer: { ...log, ...store, ...database },
    worker: { ...log, ...store, ...database, ...files },
  }
  const start = (name: RolledService): Promise<RestartableService> =>
    keep(startRestartable(name, environments[name], options), (it) => it.end())
  const pair = async (name: RolledService): Promise<Pair> => together([start(name), start(name)])
  // The query service starts first: it registers the admin key.
  const query = await pair('query')
  const services = { query, gateway: await pair('gateway'), writer: await pair('writer'), worker: await pair('worker') }
  const { gateway: gateways } = services
  const starting = startHaproxy({
    gateways: [gateways[0].url, gateways[1].url],
    queries: [query[0].url, query[1].url],
  })
  const balancer = await keep(starting, (it) => it.stop())
  return { key, balancer, services, gateways, clickHouse, logUrl }
}
