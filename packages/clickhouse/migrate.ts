import { readdir, readFile } from 'node:fs/promises'
import { SluiceError } from '@sluice/contracts/errors'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from './client.ts'
import { ClickHouseError, clickHouseCode } from './errors.ts'

const folder = new URL('./migrations/', import.meta.url)

/** Names of the migrations that this build knows, in order: `001-events`, … */
async function knownMigrations(): Promise<string[]> {
  const files = await readdir(folder)
  return files
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort()
}

/** The statements of a migration: each ends with a semicolon at the end of a line, and comments have lines of their own. */
export function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

async function appliedMigrations(clickHouse: ClickHouse): Promise<string[]> {
  const { rows: tables } = await clickHouse.query<{ found: number }>(
    `SELECT count() AS found FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migrations'`,
  )
  if (tables[0]?.found !== 1) return []
  const { rows } = await clickHouse.query<{ name: string }>('SELECT DISTINCT name FROM schema_migrations ORDER BY name')
  return rows.map((row) => row.name)
}

/**
 * Creates the database if it is missing and applies what is missing, in order; each statement can be repeated.
 * Callers hold the migration lock of Postgres, so that two never run at once.
 * Returns the names applied. Throws ClickHouseError, or SluiceError when the schema is newer than this build.
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
    refuseNewer(applied, known)
    const missing = known.filter((name) => !applied.includes(name))
    for (const name of missing) {
      const sql = await readFile(new URL(`${name}.sql`, folder), 'utf8')
      for (const statement of statementsOf(sql)) await clickHouse.command(statement)
      await clickHouse.command('INSERT INTO schema_migrations (name) VALUES ({name:String})', { params: { name } })
    }
    return missing
  } finally {
    await clickHouse.close()
  }
}

/** Throws when the schema is older or newer than this build, and says what to do. */
export async function checkClickHouseSchema(clickHouse: ClickHouse): Promise<void> {
  const known = await knownMigrations()
  const applied = await appliedMigrations(clickHouse).catch((error: unknown): string[] => {
    // Nobody has migrated yet: not even the database is there.
    if (error instanceof ClickHouseError && error.code === clickHouseCode.unknownDatabase) return []
    throw error
  })
  refuseNewer(applied, known)
  const missing = known.filter((name) => !applied.includes(name))
  if (missing.length > 0) {
    throw new SluiceError(500, {
      message: 'Internal server error',
      internal: `The ClickHouse schema is older than this build (missing: ${missing.join(', ')}). Run "npm run migrate".`,
    })
  }
}

function refuseNewer(applied: readonly string[], known: readonly string[]): void {
  const unknown = applied.filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    throw new SluiceError(500, {
      message: 'Internal server error',
      internal: `The ClickHouse schema is newer than this build (unknown: ${unknown.join(', ')}). Run the newer build.`,
    })
  }
}
