import { readdir, readFile } from 'node:fs/promises'
import {
  type AppliedMigrations,
  missingMigrations,
  requireWorkableSchema,
  type SchemaVersions,
} from '@sluice/runtime/schema-versions'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from './client.ts'
import { clickHouseCode, ClickHouseError } from './errors.ts'
import { recordServer } from './store-identity.ts'

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

/** Splits a migration into statements: each ends with a semicolon at the end of a line, and comments have lines of their own. */
export function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

async function schemaVersions(clickHouse: Pick<ClickHouse, 'query'>, folder: URL): Promise<SchemaVersions> {
  const versions = { engine: 'ClickHouse', known: await knownMigrations(folder) }
  const { rows: columns } = await clickHouse.query<{ name: string }>(
    `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'schema_migrations'`,
  )
  if (columns.length === 0) return { ...versions, applied: new Map() }
  // Builds before number 1 noted no builds.
  const oldestBuild = columns.some(({ name }) => name === 'oldest_build') ? 'max(oldest_build)' : 'NULL'
  const { rows } = await clickHouse.query<{ name: string; oldest: number | null }>(
    `SELECT name, ${oldestBuild} AS oldest FROM schema_migrations GROUP BY name ORDER BY name`,
  )
  return { ...versions, applied: new Map(rows.map(({ name, oldest }) => [name, oldest])) }
}

/**
 * Creates the database if it is missing, applies the missing migrations in order, and notes the server as the one that the
 * store is on; each statement can be repeated.
 * Callers hold the migration lock of Postgres, so that two migrations never run at the same time.
 * Returns the names of the applied migrations: none on a schema that a newer build left. Throws ClickHouseError, or AppError
 * when this build can't work with the schema.
 */
export async function migrateClickHouse(url: string, folder = migrationFolder): Promise<readonly string[]> {
  const { database } = parseClickHouseUrl(url)
  const serverUrl = new URL(url)
  serverUrl.pathname = '/default'
  const server = openClickHouse(serverUrl.href)
  try {
    await server.command(`CREATE DATABASE IF NOT EXISTS ${database}`)
  } finally {
    await server.close()
  }

  const clickHouse = openClickHouse(url)
  try {
    await clickHouse.command(
      `CREATE TABLE IF NOT EXISTS schema_migrations (name String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
       ENGINE = MergeTree ORDER BY name`,
    )
    await clickHouse.command('ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS oldest_build Nullable(UInt32)')
    const missing = missingMigrations(await schemaVersions(clickHouse, folder))
    for (const name of missing) {
      const sql = await readFile(new URL(`${name}.sql`, folder), 'utf8')
      const oldestBuild = oldestBuildOf(sql)
      for (const statement of statementsOf(sql)) await clickHouse.command(statement)
      await clickHouse.command(
        'INSERT INTO schema_migrations (name, oldest_build) VALUES ({name:String}, {oldestBuild:UInt32})',
        { params: { name, oldestBuild } },
      )
    }
    await recordServer(clickHouse)
    return missing
  } finally {
    await clickHouse.close()
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

/** Throws AppError, with what to do, when this build can't work with the schema; ClickHouseError while it is unknown. */
export async function checkClickHouseSchema(clickHouse: Pick<ClickHouse, 'query'>): Promise<void> {
  requireWorkableSchema(await schemaVersionsOrNone(clickHouse, migrationFolder))
}

/** As `schemaVersions`; before the first migration the database does not exist. */
async function schemaVersionsOrNone(clickHouse: Pick<ClickHouse, 'query'>, folder: URL): Promise<SchemaVersions> {
  return schemaVersions(clickHouse, folder).catch(async (error: unknown) => {
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
    /** Bytes of the table that the statement reads or writes anew, at most; 0: it changes what the table is described by. */
    bytes: number
  }[]
}

/** The missing migrations with their statements; nothing is changed. Throws as `migrateClickHouse` does. */
export async function planClickHouse(url: string, folder = migrationFolder): Promise<PlannedMigration[]> {
  const clickHouse = openClickHouse(url)
  try {
    const missing = missingMigrations(await schemaVersionsOrNone(clickHouse, folder))
    return await Promise.all(
      missing.map(async (name) => ({
        name,
        statements: await Promise.all(
          statementsOf(await readFile(new URL(`${name}.sql`, folder), 'utf8')).map(async (sql) => ({
            sql,
            bytes: await rewrittenBytes(clickHouse, sql),
          })),
        ),
      })),
    )
  } finally {
    await clickHouse.close()
  }
}

/** Statements that read or write each part of a table: mutations, and a table that is made anew from itself. */
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
