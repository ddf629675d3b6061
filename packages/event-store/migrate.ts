import { readdir, readFile } from 'node:fs/promises'
import { rejectNewerSchema, requireCurrentSchema } from '@sluice/runtime/schema-versions'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from './client.ts'
import { clickHouseCode, ClickHouseError } from './errors.ts'
import { noteServer } from './store-identity.ts'

const folder = new URL('./migrations/', import.meta.url)

/** Names of the migrations that this build knows, in order: `001-events`, … */
async function knownMigrations(): Promise<string[]> {
  const files = await readdir(folder)
  return files
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort()
}

/** Splits a migration into statements: each ends with a semicolon at the end of a line, and comments have lines of their own. */
export function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

async function appliedMigrations(clickHouse: Pick<ClickHouse, 'query'>): Promise<string[]> {
  const { rows: tables } = await clickHouse.query<{ found: number }>(
    `SELECT count() AS found FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migrations'`,
  )
  if (tables[0]?.found !== 1) return []
  const { rows } = await clickHouse.query<{ name: string }>('SELECT DISTINCT name FROM schema_migrations ORDER BY name')
  return rows.map((row) => row.name)
}

/**
 * Creates the database if it is missing, applies the missing migrations in order, and notes the server as the one that the
 * store is on; each statement can be repeated.
 * Callers hold the migration lock of Postgres, so that two migrations never run at the same time.
 * Returns the names of the applied migrations. Throws ClickHouseError, or AppError when the schema is newer than this build.
 */
export async function migrateClickHouse(url: string): Promise<string[]> {
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
    const known = await knownMigrations()
    const applied = await appliedMigrations(clickHouse)
    rejectNewerSchema({ engine: 'ClickHouse', applied, known })
    const missing = known.filter((name) => !applied.includes(name))
    for (const name of missing) {
      const sql = await readFile(new URL(`${name}.sql`, folder), 'utf8')
      for (const statement of statementsOf(sql)) await clickHouse.command(statement)
      await clickHouse.command('INSERT INTO schema_migrations (name) VALUES ({name:String})', { params: { name } })
    }
    await noteServer(clickHouse)
    return missing
  } finally {
    await clickHouse.close()
  }
}

/** Throws AppError, with the command to run, when the schema is older or newer than this build; ClickHouseError while it is unknown. */
export async function checkClickHouseSchema(clickHouse: Pick<ClickHouse, 'query'>): Promise<void> {
  const known = await knownMigrations()
  const applied = await appliedMigrations(clickHouse).catch((error: unknown): string[] => {
    // Before the first migration the database does not exist.
    if (error instanceof ClickHouseError && error.serverCode === clickHouseCode.unknownDatabase) return []
    throw error
  })
  requireCurrentSchema({ engine: 'ClickHouse', applied, known })
}
