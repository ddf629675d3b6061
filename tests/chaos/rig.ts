import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { type EmbeddedPostgres, startPostgres } from '@sluice/engines/postgres'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { type ClickHouseProxy, clickHouseProxy } from '../support/clickhouse-proxy.ts'
import { startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { type LocalKafka, startKafka } from '../support/engines/kafka.ts'
import { type LocalRedis, startRedis } from '../support/engines/redis.ts'
import { findFreePort } from '../support/free-port.ts'
import { testSecretsKey } from '../support/secrets-key.ts'
import type { ServiceName } from '../support/service-process.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'
import {
  clickHouseAnswers,
  type Keep,
  keepEveryPart,
  killEngine,
  makeFolder,
  migrate,
  type RestartableService,
  startRestartable,
  startWith,
  together,
} from './rig-parts.ts'

/**
 * A whole Sluice, each part a separate process, with proxies that can cut the connections between the parts: client –
 * gateway – Kafka – writer – ClickHouse, and gateway – Postgres – query. There is no proxy before Redis, which is
 * killed and frozen instead.
 */
export interface Rig {
  /** An admin key. */
  key: string
  gateways: readonly [RestartableService, RestartableService]
  writers: readonly [RestartableService, RestartableService]
  query: RestartableService
  kafka: LocalKafka
  clickHouse: RigClickHouse
  postgres: EmbeddedPostgres
  redis: LocalRedis
  proxies: {
    /** A proxy between the clients and each gateway. */
    clients: readonly [TcpProxy, TcpProxy]
    /** The proxy between Kafka and both gateways and writers. */
    kafka: TcpProxy
    /** The proxy between Postgres and both gateways and the query service. */
    postgres: TcpProxy
    /** A proxy between ClickHouse and each writer. */
    clickHouse: readonly [ClickHouseProxy, ClickHouseProxy]
  }
  /** Kafka's URL through its proxy. */
  logUrl: string
  /** Ends everything and removes its data. */
  stop(): Promise<void>
}

/** The servers of ClickHouse. */
export interface RigClickHouse {
  /** The URL for services: of the only server, or of the cluster. */
  url: string
  /** The servers in the order of their shards. */
  servers: readonly [RigServer, ...RigServer[]]
}

export interface RigServer {
  /** The URL of the store's tables on this server. */
  url: string
  /** The id of its process since its last start. */
  pid(): number
  /** Kills the server; resolves when it has been started again and answers. */
  killAndStart(): Promise<void>
}

export interface RigOptions {
  /** Servers of ClickHouse, each with a shard of the events; one by default. */
  shards?: number
}

/**
 * Two partitions for each writer. With more partitions there would be more parts, which slow ClickHouse down because
 * they are not merged.
 */
const partitions = 4

/**
 * Starts all parts with fresh data in a temporary folder, which takes about 10 s. When this process is killed with
 * SIGKILL, only the services outlive it. ClickHouse merges nothing, so that its ReplacingMergeTree can't hide rows that
 * were stored twice.
 */
export function startRig({ shards = 1 }: RigOptions = {}): Promise<Rig> {
  return startWith((keep) => startParts(keep, shards))
}

async function startParts(keep: Keep, shards: number): Promise<Omit<Rig, 'stop'>> {
  const folder = await keep(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const proxy = (targetUrl: string): Promise<TcpProxy> => keep(tcpProxy(targetUrl), (opened) => opened.close())
  const service = (name: ServiceName, environment: Readonly<Record<string, string>>): Promise<RestartableService> =>
    keep(startRestartable(name, environment), (it) => it.end())

  const kafkaPort = await findFreePort()
  const kafkaProxy = await proxy(`kafka://127.0.0.1:${kafkaPort}`)
  const kafkaOptions = { dir: join(folder, 'kafka'), port: kafkaPort, advertisedPort: kafkaProxy.port }
  const [kafka, clickHouse, postgres, redis] = await together([
    keep(startKafka(kafkaOptions), (engine) => engine.stop()),
    shards === 1 ? startServer(keep, join(folder, 'clickhouse')) : startCluster(keep, shards),
    keep(startPostgres({ dir: join(folder, 'postgres'), durable: false }), (engine) => engine.stop()),
    keep(startRedis({ dir: join(folder, 'redis') }), (engine) => engine.stop()),
  ])
  const postgresProxy = await proxy(postgres.url)

  const key = generateKey('prod')
  const logUrl = `kafka://127.0.0.1:${kafkaProxy.port}/chaos.events`
  const log = { SLUICE_LOG_URL: logUrl }
  const database = { SLUICE_POSTGRES_URL: postgresProxy.url }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const counters = { SLUICE_REDIS_URL: redis.url }
  const files = { SLUICE_BLOBS_URL: `file:${join(folder, 'blobs')}`, SLUICE_SECRETS_KEY: testSecretsKey }
  await ensureTopics(logUrl, { partitions })
  await migrate({ ...log, ...database, ...store })
  for (const { url } of clickHouse.servers) await keepEveryPart(url)

  const pair = <T>(start: () => Promise<T>): Promise<[T, T]> => together([start(), start()])
  const clickHouseProxies = await pair(() =>
    keep(
      clickHouseProxy(
        clickHouse.url,
        clickHouse.servers.map(({ url }) => url),
      ),
      (opened) => opened.close(),
    ),
  )
  const query = await service('query', { ...database, ...store, ...counters, ...files, SLUICE_ADMIN_KEY: key })
  const gateways = await pair(() => service('gateway', { ...log, ...database, ...counters }))
  const [first, second] = clickHouseProxies
  const writers = await together([
    service('writer', { ...log, ...database, SLUICE_CLICKHOUSE_URL: first.url }),
    service('writer', { ...log, ...database, SLUICE_CLICKHOUSE_URL: second.url }),
  ])
  const clients = await together([proxy(gateways[0].url), proxy(gateways[1].url)])
  const proxies = { clients, kafka: kafkaProxy, postgres: postgresProxy, clickHouse: clickHouseProxies }
  return { key, gateways, writers, query, kafka, clickHouse, postgres, redis, proxies: proxies, logUrl }
}

async function startServer(keep: Keep, dir: string): Promise<RigClickHouse> {
  const engine = await keep(startClickHouse({ dir }), (started) => started.stop())
  const { url } = engine
  const server = {
    url,
    pid: () => engine.pid,
    killAndStart: () => killEngine(engine, () => clickHouseAnswers(url)),
  }
  return { url, servers: [server] }
}

async function startCluster(keep: Keep, shards: number): Promise<RigClickHouse> {
  const database = 'sluice'
  const cluster = await keep(startClickHouseCluster({ shards }), (started) => started.stop())
  const [first, ...others] = cluster.servers.map((server) => ({
    url: server.url(database),
    pid: () => server.pid(),
    killAndStart: async () => {
      await server.kill()
      await server.start()
    },
  }))
  if (first === undefined) throw new Error('a cluster has a shard at least')
  return { url: cluster.url(database), servers: [first, ...others] }
}
