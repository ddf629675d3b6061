import { generateKey } from '@sluice/contracts/api-key'
import { openClickHouse } from '@sluice/clickhouse/client'
import { type EmbeddedClickHouse, startClickHouse } from '@sluice/engines/clickhouse'
import { type LocalKafka, startKafka } from '@sluice/engines/kafka'
import { type EmbeddedPostgres, startPostgres } from '@sluice/engines/postgres'
import { findFreePort } from '@sluice/engines/processes'
import { type LocalRedis, startRedis } from '@sluice/engines/redis'
import { ensureTopics } from '@sluice/event-log/ensure-topics'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ClickHouseProxy, clickHouseProxy } from '../harness/clickhouse-proxy.ts'
import { type ServiceName, type ServiceProcess, spawnService, startService } from '../harness/service-process.ts'
import { type TcpProxy, tcpProxy } from '../harness/tcp-proxy.ts'

/** A service that is killed and started again in the same place. */
export interface Place {
  readonly url: string
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Starts it again on the same port; resolves when it is ready. */
  start(): Promise<void>
  /** SIGTERM; resolves when it is gone. */
  stop(): Promise<void>
  /** SIGKILL for good. */
  end(): Promise<void>
  freeze(): void
  wake(): void
  /** What it printed since its last start. */
  output(): string
}

/**
 * A whole Sluice, every part a process of its own, and a line between any two parts that can be cut:
 * client – gateway – Kafka – writer – ClickHouse, and gateway – Postgres – query. Redis is killed and frozen itself.
 */
export interface Rig {
  /** May do everything. */
  key: string
  gateways: readonly [Place, Place]
  writers: readonly [Place, Place]
  query: Place
  kafka: LocalKafka
  clickHouse: EmbeddedClickHouse
  postgres: EmbeddedPostgres
  redis: LocalRedis
  lines: {
    /** One for each gateway. */
    clients: readonly [TcpProxy, TcpProxy]
    /** Of both gateways and both writers. */
    kafka: TcpProxy
    /** Of both gateways and the query service. */
    postgres: TcpProxy
    /** One for each writer. */
    clickHouse: readonly [ClickHouseProxy, ClickHouseProxy]
  }
  /** Of Kafka, by way of its line. */
  logUrl: string
  /** Ends everything and removes its data. */
  stop(): Promise<void>
}

/** Two for each writer. More would make more parts, which slow ClickHouse while nothing merges them. */
const partitions = 4

/**
 * Starts it all with fresh data in a temporary folder, which takes about 10 s. Nothing of it outlives this process but
 * the services, should it be killed -9. ClickHouse merges nothing, so that its ReplacingMergeTree can't hide what was
 * stored twice.
 */
export async function startRig(): Promise<Rig> {
  const ends: (() => Promise<void>)[] = []
  /** What was started is ended in reverse order, also when a later start fails. */
  const kept = async <T>(starting: Promise<T>, end: (thing: T) => Promise<void>): Promise<T> => {
    const thing = await starting
    ends.push(() => end(thing))
    return thing
  }
  const stop = async (): Promise<void> => {
    for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end()
  }
  try {
    return { ...(await startParts(kept)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startParts(
  kept: <T>(starting: Promise<T>, end: (thing: T) => Promise<void>) => Promise<T>,
): Promise<Omit<Rig, 'stop'>> {
  const folder = await kept(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const line = (port: number): Promise<TcpProxy> => kept(tcpProxy(port), (proxy) => proxy.close())
  const place = (name: ServiceName, environment: Readonly<Record<string, string>>): Promise<Place> =>
    kept(startPlace(name, environment), (it) => it.end())

  const kafkaPort = await findFreePort()
  const kafkaLine = await line(kafkaPort)
  const kafkaOptions = { dir: join(folder, 'kafka'), port: kafkaPort, advertisedPort: kafkaLine.port }
  const [kafka, clickHouse, postgres, redis] = await together([
    kept(startKafka(kafkaOptions), (engine) => engine.stop()),
    kept(startClickHouse({ dir: join(folder, 'clickhouse') }), (engine) => engine.stop()),
    kept(startPostgres({ dir: join(folder, 'postgres'), durable: false }), (engine) => engine.stop()),
    kept(startRedis({ dir: join(folder, 'redis') }), (engine) => engine.stop()),
  ])
  const postgresLine = await line(Number(new URL(postgres.url).port))

  const key = generateKey('prod')
  const logUrl = `kafka://127.0.0.1:${kafkaLine.port}/chaos.events`
  const log = { SLUICE_LOG_URL: logUrl }
  const database = { SLUICE_POSTGRES_URL: withPort(postgres.url, postgresLine.port) }
  const store = { SLUICE_CLICKHOUSE_URL: clickHouse.url }
  const counters = { SLUICE_REDIS_URL: redis.url }
  await ensureTopics(logUrl, { partitions })
  await migrate({ ...log, ...database, ...store })
  await keepEveryPart(clickHouse.url)

  const pair = <T>(start: () => Promise<T>): Promise<[T, T]> => together([start(), start()])
  const clickHouseLines = await pair(() => kept(clickHouseProxy(clickHouse.url), (proxy) => proxy.close()))
  const query = await place('query', { ...database, ...store, ...counters, SLUICE_ADMIN_KEY: key })
  const gateways = await pair(() => place('gateway', { ...log, ...database, ...counters }))
  const [first, second] = clickHouseLines
  const writers = await together([
    place('writer', { ...log, ...database, SLUICE_CLICKHOUSE_URL: first.url }),
    place('writer', { ...log, ...database, SLUICE_CLICKHOUSE_URL: second.url }),
  ])
  const clients = await together([line(portOf(gateways[0])), line(portOf(gateways[1]))])
  const lines = { clients, kafka: kafkaLine, postgres: postgresLine, clickHouse: clickHouseLines }
  return { key, gateways, writers, query, kafka, clickHouse, postgres, redis, lines, logUrl }
}

/** Like Promise.all, but rejects only once all have come to an end: a start that goes on would not be undone. */
async function together<T extends readonly Promise<unknown>[]>(
  starting: readonly [...T],
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(starting)
  return Promise.all(starting)
}

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `sluice-chaos-${process.pid}-`))
  await chmod(folder, 0o711) // Postgres runs as another user when we are root, and must pass through
  return folder
}

async function migrate(environment: Readonly<Record<string, string>>): Promise<void> {
  const service = await spawnService('migrate', environment)
  const code = await service.exited
  if (code !== 0) throw new Error(`migrate ended with ${code}: ${service.output()}`)
}

/** Unlike SYSTEM STOP MERGES this outlasts a restart of ClickHouse; the audit checks that it held. */
async function keepEveryPart(clickHouseUrl: string): Promise<void> {
  const clickHouse = openClickHouse(clickHouseUrl)
  await clickHouse.command(`
    ALTER TABLE events MODIFY SETTING
      max_bytes_to_merge_at_min_space_in_pool = 1, max_bytes_to_merge_at_max_space_in_pool = 1,
      parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000, max_parts_in_total = 1000000`)
  await clickHouse.close()
}

async function startPlace(name: ServiceName, environment: Readonly<Record<string, string>>): Promise<Place> {
  const port = await findFreePort()
  let service: ServiceProcess = await startService(name, environment, { port })
  // We may end early, by an error say. Engines notice that by themselves, services do not.
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

function withPort(url: string, port: number): string {
  const changed = new URL(url)
  changed.port = String(port)
  return changed.href
}

function portOf({ url }: Place): number {
  return Number(new URL(url).port)
}
