import { setTimeout } from 'node:timers/promises'
import { SluiceError } from '@sluice/contracts/errors'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import * as keysAndSites from './migrations/001-keys-and-sites.ts'
import * as siteRegistrations from './migrations/002-site-registrations.ts'
import * as grantsAndSettings from './migrations/003-key-grants-and-site-settings.ts'
import * as keyRotations from './migrations/004-key-rotations.ts'
import * as cohorts from './migrations/005-cohorts.ts'
import * as logWatermarks from './migrations/006-log-watermarks.ts'
import type { Postgres } from './open.ts'

const migrations: Record<string, Migration> = {
  '001-keys-and-sites': keysAndSites,
  '002-site-registrations': siteRegistrations,
  '003-key-grants-and-site-settings': grantsAndSettings,
  '004-key-rotations': keyRotations,
  '005-cohorts': cohorts,
  '006-log-watermarks': logWatermarks,
}

function migrator(postgres: Postgres): Migrator {
  return new Migrator({ db: postgres.db, provider: { getMigrations: () => Promise.resolve(migrations) } })
}

/** Applies what is missing, in order, in one transaction. Returns the names applied. */
export async function migratePostgres(postgres: Postgres): Promise<string[]> {
  return postgres.run(async () => {
    refuseNewer(await appliedMigrations(postgres))
    const { error, results = [] } = await migrator(postgres).migrateToLatest()
    if (error !== undefined) throw error instanceof Error ? error : new Error('migration failed', { cause: error })
    return results.map(({ migrationName }) => migrationName)
  })
}

/** Throws when the schema is older or newer than this build, and says what to do; 503 while Postgres is away. */
export async function checkPostgresSchema(postgres: Postgres): Promise<void> {
  await postgres.run(async () => {
    const applied = await appliedMigrations(postgres)
    refuseNewer(applied)
    const missing = Object.keys(migrations).filter((name) => !applied.includes(name))
    if (missing.length > 0) {
      throw wrongSchema(
        `The Postgres schema is older than this build (missing: ${missing.join(', ')}). Run "npm run migrate".`,
      )
    }
  })
}

/** Any number serves, as long as every build uses this one. */
const migrationLock = 5_757_005
const lockRetryMs = 200

/** Runs `work` while no other process migrates, however long that takes; the lock goes with the connection. */
export async function withMigrationLock<T>(postgres: Postgres, work: () => Promise<T>): Promise<T> {
  return postgres.run((db) =>
    db.connection().execute(async (connection) => {
      // Tried again and again: a statement that waits would be cut off by the pool's time-out.
      while (!(await tryLock(connection))) await setTimeout(lockRetryMs)
      try {
        return await work()
      } finally {
        await sql`SELECT pg_advisory_unlock(${migrationLock})`.execute(connection)
      }
    }),
  )
}

async function tryLock(connection: Postgres['db']): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`SELECT pg_try_advisory_lock(${migrationLock}) AS locked`.execute(
    connection,
  )
  return rows[0]?.locked === true
}

async function appliedMigrations(postgres: Postgres): Promise<string[]> {
  const { rows: tables } = await sql<{
    found: boolean
  }>`SELECT to_regclass('kysely_migration') IS NOT NULL AS found`.execute(postgres.db)
  if (tables[0]?.found !== true) return []
  const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(postgres.db)
  return rows.map(({ name }) => name)
}

function refuseNewer(applied: readonly string[]): void {
  const unknown = applied.filter((name) => !Object.hasOwn(migrations, name))
  if (unknown.length > 0) {
    throw wrongSchema(
      `The Postgres schema is newer than this build (unknown: ${unknown.join(', ')}). Run the newer build.`,
    )
  }
}

function wrongSchema(internal: string): SluiceError {
  return new SluiceError(500, { message: 'Internal server error', internal })
}
