import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import {
  type AppliedMigrations,
  missingMigrations,
  oldestBuildOfShards,
  requireWorkableSchema,
  type SchemaVersions,
} from '@sluice/runtime/schema-versions'
import { type ClickHouse, type ClickHouseAddress, parseClickHouseUrl, withClickHouse } from './clickhouse/client.ts'
import { createShardsTables, mapServers, storeServers } from './clickhouse/cluster.ts'
import { clickHouseCode, ClickHouseError } from './clickhouse/errors.ts'
import {
  checkRecordedShards,
  type RecordedShards,
  recordServer,
  recordShard,
  requireNoLostShard,
  type ShardIdentity,
} from './store-identity.ts'

/** The migrations of this build. */
export const migrationFolder = new URL('./migrations/', import.meta.url)

/** Names of the migrations in a folder, in order: `001-events`, … */
async function knownMigrations(folder: URL): Promise<string[]> {
  const files = await readdir(folder)
  return files
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort()
}

/** The number of the oldest build that can work with the schema that a migration leaves; its first line names it. */
export function oldestBuildOf(sql: string): number {
  const [, oldestBuild] = /^-- Oldest build: (\d+)\n/.exec(sql) ?? []
  if (oldestBuild === undefined) throw new Error('a migration must begin with "-- Oldest build: <number>"')
  return Number(oldestBuild)
}

/**
 * Splits a migration into statements: each ends with a semicolon at the end of a line, and comments have lines of their
 * own.
 */
export function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

async function schemaVersions(
  clickHouse: Pick<ClickHouse, 'query'>,
  folder: URL,
  { isSharded = false } = {},
): Promise<SchemaVersions> {
  const versions = { engine: 'ClickHouse', known: await knownMigrations(folder) }
  const { rows: columns } = await clickHouse.query<{ name: string }>(
    `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'schema_migrations'`,
  )
  if (columns.length === 0) return { ...versions, applied: new Map() }
  // Builds before number 1 did not record `oldest_build`.
  const oldestBuild = columns.some(({ name }) => name === 'oldest_build') ? 'max(oldest_build)' : 'NULL'
  const everywhere = isSharded ? ' HAVING uniqExact(shardNum()) = (SELECT count() FROM store FINAL)' : ''
  const { rows } = await clickHouse.query<{ name: string; oldest: number | null }>(
    `SELECT name, ${oldestBuild} AS oldest FROM schema_migrations GROUP BY name${everywhere} ORDER BY name`,
  )
  return { ...versions, applied: new Map(rows.map(({ name, oldest }) => [name, oldest])) }
}

/**
 * Creates the database if it is missing, applies the missing migrations in order, and records the server as the one
 * that holds the store. With `?cluster=` it does so on each server of the cluster, and creates the tables over all
 * shards there. Each statement can be repeated. Callers hold the migration lock of Postgres, so that two migrations
 * never run at the same time.
 *
 * Returns the names of the applied migrations; none for a schema that a newer build left. Throws ClickHouseError.
 * Throws AppError when this build can't work with the schema or the servers are not those of one store; then nothing is
 * changed.
 */
export async function migrateClickHouse(url: string, folder = migrationFolder): Promise<readonly string[]> {
  const address = parseClickHouseUrl(url)
  const servers = await storeServers(address)
  const recorded = await checkRecordedShards(servers)
  await requireNoLostShard(servers, recorded)
  const id = recorded.find((found) => found !== undefined)?.id ?? randomUUID()
  const applied = new Set<string>()
  for (const [shard, server] of servers.entries()) {
    const identity = { id, shard, shards: servers.length }
    // A store without its row gets one: with a new id, the writers read the log again, and store nothing twice.
    const isNew = recorded[shard] === undefined
    for (const name of await migrateServer(server, { folder, identity, isNew })) applied.add(name)
    await withClickHouse(server, recordServer)
  }
  if (address.cluster !== undefined) await createShardsTables(servers, address.cluster)
  return [...applied]
}

/**
 * Creates the databases of a store that `npm run reshard` will fill, or completes them. The servers are in the order of
 * their shards. Until `migrateClickHouse` has run, services can't use the store: it takes no inserts, and has no tables
 * over all shards.
 */
export async function createClosedStore(
  servers: readonly ClickHouseAddress[],
  recorded: RecordedShards,
  id: string,
): Promise<void> {
  await mapServers(servers, (server, shard) =>
    migrateServer(server, {
      folder: migrationFolder,
      identity: { id, shard, shards: servers.length },
      isNew: recorded[shard] === undefined,
      isClosed: true,
    }),
  )
}

async function createDatabase({ database, ...server }: ClickHouseAddress): Promise<void> {
  await withClickHouse({ ...server, database: 'default' }, (clickHouse) =>
    clickHouse.command(`CREATE DATABASE IF NOT EXISTS ${database}`),
  )
}

/**
 * Applies the missing migrations to a server, and returns their names. A server that `isNew` first records its shard.
 */
async function migrateServer(
  server: ClickHouseAddress,
  { folder, identity, isNew, isClosed }: { folder: URL; identity: ShardIdentity; isNew: boolean; isClosed?: boolean },
): Promise<readonly string[]> {
  await createDatabase(server)
  return withClickHouse(server, async (clickHouse) => {
    if (isNew) {
      await createStoreTable(clickHouse, folder)
      await recordShard(clickHouse, identity, { isClosed })
    }
    const applied = await applyMigrations(clickHouse, folder)
    if (identity.shards > 1) await recordOldestBuildOfShards(clickHouse)
    return applied
  })
}

async function applyMigrations(clickHouse: ClickHouse, folder: URL): Promise<readonly string[]> {
  await clickHouse.command(
    `CREATE TABLE IF NOT EXISTS schema_migrations (name String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
     ENGINE = MergeTree ORDER BY name`,
  )
  // A migration whose row is lost in a power failure runs again, and 007 would give all users the version 0.
  await clickHouse.command(
    `ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS oldest_build Nullable(UInt32),
     MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1`,
  )
  const missing = missingMigrations(await schemaVersions(clickHouse, folder))
  for (const name of missing) {
    const sql = await readMigration(folder, name)
    const oldestBuild = oldestBuildOf(sql)
    for (const statement of statementsOf(sql)) await clickHouse.command(statement)
    await clickHouse.command(
      'INSERT INTO schema_migrations (name, oldest_build) VALUES ({name:String}, {oldestBuild:UInt32})',
      { params: { name, oldestBuild } },
    )
  }
  return missing
}

/**
 * A build that knows no shards may start while Postgres is unavailable and can't refuse it. Then the schema of
 * ClickHouse refuses it.
 */
async function recordOldestBuildOfShards(clickHouse: ClickHouse): Promise<void> {
  await clickHouse.command(
    `INSERT INTO schema_migrations (name, oldest_build) SELECT '010-shards', {oldestBuild:UInt32}
     WHERE (SELECT max(oldest_build) FROM schema_migrations WHERE name = '010-shards') < {oldestBuild:UInt32}`,
    { params: { oldestBuild: oldestBuildOfShards } },
  )
}

function readMigration(folder: URL, name: string): Promise<string> {
  return readFile(new URL(`${name}.sql`, folder), 'utf8')
}

/**
 * Creates the table of the store's identity before the migrations run. One of the migrations gives a store without an
 * id a new one, but all shards of a store must have the same id.
 */
async function createStoreTable(clickHouse: ClickHouse, folder: URL): Promise<void> {
  for (const name of ['005-store', '010-shards']) {
    const [statement = ''] = statementsOf(await readMigration(folder, name))
    await clickHouse.command(statement)
  }
}

/** The migrations that were applied, each with the oldest build that can work with it. Throws ClickHouseError. */
export async function appliedClickHouseMigrations(clickHouse: Pick<ClickHouse, 'query'>): Promise<AppliedMigrations> {
  return [...(await schemaVersions(clickHouse, migrationFolder)).applied]
}

/** Throws AppError, with what to do, when this build can't work with a schema that has had these migrations. */
export async function rejectNewerClickHouseSchema(applied: AppliedMigrations): Promise<void> {
  missingMigrations({ engine: 'ClickHouse', applied: new Map(applied), known: await knownMigrations(migrationFolder) })
}

/**
 * Throws AppError, with what to do, when this build can't work with the schema. Throws ClickHouseError while this is
 * unknown. With `isSharded`, it reads the tables over all shards, and a migration counts as missing if one shard lacks
 * it.
 */
export async function checkClickHouseSchema(
  clickHouse: Pick<ClickHouse, 'query'>,
  options?: { isSharded: boolean },
): Promise<void> {
  requireWorkableSchema(await schemaVersionsOrNone(clickHouse, migrationFolder, options))
}

/** `schemaVersions` without an error before the first migration, when the database does not exist. */
async function schemaVersionsOrNone(
  clickHouse: Pick<ClickHouse, 'query'>,
  folder: URL,
  options?: { isSharded: boolean },
): Promise<SchemaVersions> {
  return schemaVersions(clickHouse, folder, options).catch(async (error: unknown) => {
    if (error instanceof ClickHouseError && error.serverCode === clickHouseCode.unknownDatabase) {
      return { engine: 'ClickHouse', applied: new Map<string, null>(), known: await knownMigrations(folder) }
    }
    throw error
  })
}

/** A migration that would be applied, with its statements. */
export interface PlannedMigration {
  name: string
  statements: readonly {
    sql: string
    /**
     * Upper bound of the bytes of the table that the statement reads or rewrites. 0 for a statement that changes only
     * the table's metadata.
     */
    bytes: number
  }[]
}

/** The steps that `migrateClickHouse` would take on a server. */
export interface PlannedServer {
  /** The server's address; undefined without a cluster. */
  server: string | undefined
  migrations: readonly PlannedMigration[]
}

/**
 * The missing migrations of each server with their statements; nothing is changed. Throws as `migrateClickHouse` does.
 */
export async function planClickHouse(url: string, folder = migrationFolder): Promise<readonly PlannedServer[]> {
  const address = parseClickHouseUrl(url)
  const servers = await storeServers(address)
  await requireNoLostShard(servers, await checkRecordedShards(servers))
  return Promise.all(
    servers.map(async (server) => ({
      server: address.cluster === undefined ? undefined : server.origin,
      migrations: await planServer(server, folder),
    })),
  )
}

async function planServer(server: ClickHouseAddress, folder: URL): Promise<PlannedMigration[]> {
  return withClickHouse(server, async (clickHouse) => {
    const missing = missingMigrations(await schemaVersionsOrNone(clickHouse, folder))
    return Promise.all(
      missing.map(async (name) => ({
        name,
        statements: await Promise.all(
          statementsOf(await readMigration(folder, name)).map(async (sql) => ({
            sql,
            bytes: await rewrittenBytes(clickHouse, sql),
          })),
        ),
      })),
    )
  })
}

/**
 * Statements that read or rewrite all parts of a table: mutations, and a table that is created again from its own rows.
 */
const rewriting =
  /^\s*(?:ALTER TABLE(?=[^]*\b(?:MATERIALIZE|MODIFY COLUMN|UPDATE|DELETE)\b)|DELETE FROM|CREATE OR REPLACE TABLE(?=[^]*\bAS SELECT\b))\s+(\w+)/i

async function rewrittenBytes(clickHouse: Pick<ClickHouse, 'query'>, sql: string): Promise<number> {
  const table = rewriting.exec(sql)?.[1]
  if (table === undefined) return 0
  // The database may not exist yet.
  const { rows } = await clickHouse
    .query<{ bytes: number }>(
      `SELECT sum(bytes_on_disk) AS bytes FROM system.parts
       WHERE database = currentDatabase() AND table = {table:String} AND active`,
      { table },
    )
    .catch((error: unknown) => {
      if (error instanceof ClickHouseError && error.serverCode === clickHouseCode.unknownDatabase) return { rows: [] }
      throw error
    })
  return rows[0]?.bytes ?? 0
}
