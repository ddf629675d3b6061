import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { generateKey } from '@sluice/access/api-key'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { type Keep, keepEveryPart, makeFolder, startRestartable, startWith } from '../chaos/rig-parts.ts'
import { startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { startKafka } from '../support/engines/kafka.ts'
import { postgresPrograms, postgresProgramsMissing } from '../support/engines/postgres-programs.ts'
import { startRedis } from '../support/engines/redis.ts'
import { testSecretsKey } from '../support/secrets-key.ts'
import { type ProgramName, spawnProgram } from '../support/service-process.ts'

/** An installation whose engines, except Kafka, can be destroyed and replaced by empty ones. */
export interface DrillRig {
  /** An admin key. */
  key: string
  /** Where backups may be written. */
  backups: string
  /**
   * The folder of ClickHouse's disk for backups; with several shards it holds a folder for each, `1`, `2` and so on.
   */
  disk: string
  engines(): Engines
  /** Runs a command of operators, with further variables; returns its exit code and output. */
  command(
    name: ProgramName,
    args?: readonly string[],
    more?: Readonly<Record<string, string>>,
  ): Promise<{ code: number; output: string }>
  startServices(): Promise<Services>
  /** Kills ClickHouse, Postgres and Redis, deletes their data and the store of files, and starts empty engines. */
  destroyEngines(): Promise<void>
  stop(): Promise<void>
}

export interface Engines {
  clickHouseUrl: string
  /** The URLs of the servers of ClickHouse themselves, in the order of the shards. */
  clickHouseServers: readonly string[]
  postgresUrl: string
  logUrl: string
  blobsUrl: string
}

export interface Services {
  gatewayUrl: string
  queryUrl: string
  kill(): Promise<void>
}

/**
 * Starts the engines, with ClickHouse on one server or on this number of shards. When something is missing, throws an
 * error that says what to install.
 */
export function startDrillRig({ shards = 1 }: { shards?: number } = {}): Promise<DrillRig> {
  return startWith((keep) => startParts(keep, shards))
}

interface DrillClickHouse {
  url: string
  servers: readonly string[]
  stop(): Promise<void>
}

async function startDrillClickHouse(shards: number, dir: string, backupsDir: string): Promise<DrillClickHouse> {
  if (shards === 1) {
    const engine = await startClickHouse({ dir, backupsDir })
    return { url: engine.url, servers: [engine.url], stop: () => engine.stop() }
  }
  const cluster = await startClickHouseCluster({ shards, backupsDir })
  return {
    url: cluster.url('sluice'),
    servers: cluster.servers.map((server) => server.url('sluice')),
    stop: () => cluster.stop(),
  }
}

async function startParts(keep: Keep, shards: number): Promise<Omit<DrillRig, 'stop'>> {
  const programs = postgresPrograms()
  if (programs === undefined) throw new Error(`PostgreSQL with pg_dump is missing: ${postgresProgramsMissing}`)
  const folder = await keep(makeFolder(), (dir) => rm(dir, { recursive: true, force: true }))
  const kafka = await keep(startKafka({ dir: join(folder, 'kafka') }), (engine) => engine.stop())
  const logUrl = `kafka://${kafka.brokers}/drill.events`
  await ensureTopics(logUrl, { partitions: 2 })
  const key = generateKey('prod')
  const backups = join(folder, 'backups')
  await mkdir(backups)
  const disk = join(folder, 'disk')
  await mkdir(disk)

  let generation = 0
  const startEngines = async () => {
    const own = join(folder, `engines-${generation++}`)
    await mkdir(own, { mode: 0o711 })
    const clickHouse = await startDrillClickHouse(shards, join(own, 'clickhouse'), disk)
    const postgres = await startPostgres({ dir: join(own, 'postgres'), durable: false, programs })
    const redis = await startRedis({ dir: join(own, 'redis') })
    return {
      clickHouse,
      postgres,
      redis,
      blobsUrl: `file:${join(own, 'blobs')}`,
      destroy: async () => {
        await Promise.all([clickHouse.stop(), postgres.stop(), redis.stop()])
        await rm(own, { recursive: true, force: true })
      },
    }
  }
  let engines = await startEngines()
  await keep(Promise.resolve(), () => engines.destroy())
  const environment = (): Record<string, string> => ({
    PATH: `${programs}:${process.env.PATH ?? ''}`,
    SLUICE_CLICKHOUSE_URL: engines.clickHouse.url,
    SLUICE_POSTGRES_URL: engines.postgres.url,
    SLUICE_LOG_URL: logUrl,
    SLUICE_REDIS_URL: engines.redis.url,
    SLUICE_BLOBS_URL: engines.blobsUrl,
    SLUICE_SECRETS_KEY: testSecretsKey,
  })

  const command: DrillRig['command'] = async (name, args = [], more = {}) => {
    const program = await spawnProgram(name, { ...environment(), ...more }, { arguments: args })
    return { code: Number(await program.exited), output: program.output() }
  }
  const migrated = await command('admin/migrate/main')
  if (migrated.code !== 0) throw new Error(migrated.output)
  for (const server of engines.clickHouse.servers) await keepEveryPart(server)

  return {
    key,
    backups,
    disk,
    engines: () => ({
      clickHouseUrl: engines.clickHouse.url,
      clickHouseServers: engines.clickHouse.servers,
      postgresUrl: engines.postgres.url,
      logUrl,
      blobsUrl: engines.blobsUrl,
    }),
    command,
    startServices: async () => {
      const query = await startRestartable('query', { ...environment(), SLUICE_ADMIN_KEY: key })
      const [gateway, writer] = [
        await startRestartable('gateway', environment()),
        await startRestartable('writer', environment()),
      ]
      return {
        gatewayUrl: gateway.url,
        queryUrl: query.url,
        kill: async () => {
          await Promise.all([query, gateway, writer].map((service) => service.end()))
        },
      }
    },
    destroyEngines: async () => {
      await engines.destroy()
      engines = await startEngines()
    },
  }
}
