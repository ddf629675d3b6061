import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { type EmbeddedClickHouse, startClickHouse } from '@sluice/engines/clickhouse'
import { type EmbeddedPostgres, startPostgres } from '@sluice/engines/postgres'
import { findFreePort } from '@sluice/engines/processes'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { openClickHouse } from '@sluice/event-store/client'
import { type ClickHouseProxy, clickHouseProxy } from '../support/clickhouse-proxy.ts'
import { type LocalKafka, startKafka } from '../support/engines/kafka.ts'
import { type LocalRedis, startRedis } from '../support/engines/redis.ts'
import { testSecretsKey } from '../support/secrets-key.ts'
import { type ServiceName, type ServiceProcess, spawnProgram, startService } from '../support/service-process.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'

/** A service that can be killed and started again on the same port. */
export interface RestartableService {
  readonly url: string
  /** The id of its process since its last start. */
  pid(): number
  /** Sends SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>
  /** Starts the service again on the same port; resolves when it is ready. */
  start(): Promise<void>
  /** Sends SIGTERM; resolves when the process has ended. */
  stop(): Promise<void>
  /** Sends SIGKILL; the service is not started again. */
  end(): Promise<void>
  freeze(): void
  wake(): void
  /** The output of the service since its last start. */
  output(): string
}

/**
 * A whole Sluice, every part a process of its own, and between any two parts a proxy that can cut the connection:
 * client – gateway – Kafka – writer – ClickHouse, and gateway – Postgres – query. Redis is killed and frozen itself.
 */
export interface Rig {
  /** An admin key. */
  key: string
  gateways: readonly [RestartableService, RestartableService]
  writers: readonly [RestartableService, RestartableService]
  query: RestartableService
  kafka: LocalKafka
  clickHouse: EmbeddedClickHouse
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

/** Two partitions for each writer. More would create more parts, which slow ClickHouse down as they are not merged. */
const partitions = 4

/**
 * Starts all parts with fresh data in a temporary folder, which takes about 10 s. When this process is killed with
 * SIGKILL, only the services outlive it. ClickHouse merges nothing, so that its ReplacingMergeTree can't hide rows that
 * were stored twice.
 */
export async function startRig(): Promise<Rig> {
  const ends: (() => Promise<void>)[] = []
  /** Registers a function that ends a part: the parts are ended in reverse order, also when a later start fails. */
  const keep = async <T>(starting: Promise<T>, end: (thing: T) => Promise<void>): Promise<T> => {
    const thing = await starting
    ends.push(() => end(thing))
    return thing
  }
  const stop = async (): Promise<void> => {
    for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end()
  }
  try {
    return { ...(await startParts(keep)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startParts(
  keep: <T>(starting: Promise<T>, end: (thing: T) => Promise<void>) => Promise<T>,
): Promise<Omit<Rig, 'stop'>> {
  const folder = await keep(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const proxy = (targetUrl: string): Promise<TcpProxy> => keep(tcpProxy(targetUrl), (opened) => opened.close())
  const service = (name: ServiceName, environment: Readonly<Record<string, string>>): Promise<RestartableService> =>
    keep(startRestartable(name, environment), (it) => it.end())

  const kafkaPort = await findFreePort()
  const kafkaProxy = await proxy(`kafka://127.0.0.1:${kafkaPort}`)
  const kafkaOptions = { dir: join(folder, 'kafka'), port: kafkaPort, advertisedPort: kafkaProxy.port }
  const [kafka, clickHouse, postgres, redis] = await together([
    keep(startKafka(kafkaOptions), (engine) => engine.stop()),
    keep(startClickHouse({ dir: join(folder, 'clickhouse') }), (engine) => engine.stop()),
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
  await keepEveryPart(clickHouse.url)

  const pair = <T>(start: () => Promise<T>): Promise<[T, T]> => together([start(), start()])
  const clickHouseProxies = await pair(() => keep(clickHouseProxy(clickHouse.url), (opened) => opened.close()))
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

/** Works like Promise.all, but rejects only once all have settled: a start that still runs could not be undone. */
async function together<T extends readonly Promise<unknown>[]>(
  starting: readonly [...T],
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(starting)
  return Promise.all(starting)
}

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `sluice-chaos-${process.pid}-`))
  await chmod(folder, 0o711) // As root, Postgres runs as another user, which must pass through this folder.
  return folder
}

async function migrate(environment: Readonly<Record<string, string>>): Promise<void> {
  const service = await spawnProgram('admin/migrate/main', environment)
  const code = await service.exited
  if (code !== 0) throw new Error(`migrate ended with ${code}: ${service.output()}`)
}

/** Unlike SYSTEM STOP MERGES, this setting survives a restart of ClickHouse; the audit checks that nothing was merged. */
async function keepEveryPart(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  await clickHouse.command(`
    ALTER TABLE events MODIFY SETTING
      max_bytes_to_merge_at_min_space_in_pool = 1, max_bytes_to_merge_at_max_space_in_pool = 1,
      parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, max_parts_in_total = 1000000`)
  await clickHouse.close()
}

async function startRestartable(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
): Promise<RestartableService> {
  const port = await findFreePort()
  let service: ServiceProcess = await startService(name, environment, { port })
  // This process may end early, for example by an error. Engines notice that by themselves, services do not.
  const endWithUs = (): void => {
    service.signal('SIGKILL')
  }
  process.on('exit', endWithUs)
  const kill = async (): Promise<void> => {
    service.signal('SIGKILL')
    await service.exited
  }
  return {
    url: service.url,
    pid: () => service.pid,
    kill,
    start: async () => {
      service = await startService(name, environment, { port })
    },
    end: async () => {
      process.off('exit', endWithUs)
      await kill()
    },
    stop: async () => {
      await service.stop()
    },
    freeze: () => {
      service.signal('SIGSTOP')
    },
    wake: () => {
      service.signal('SIGCONT')
    },
    output: () => service.output(),
  }
}
