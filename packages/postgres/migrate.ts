import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { rejectNewerSchema, requireCurrentSchema, type SchemaVersions } from '@sluice/runtime/schema-versions'
import * as keysAndSites from './migrations/001-keys-and-sites.ts'
import * as siteRegistrations from './migrations/002-site-registrations.ts'
import * as grantsAndSettings from './migrations/003-key-grants-and-site-settings.ts'
import * as keyRotations from './migrations/004-key-rotations.ts'
import * as cohorts from './migrations/005-cohorts.ts'
import * as logWatermarks from './migrations/006-log-watermarks.ts'
import * as logLanes from './migrations/011-log-lanes.ts'
import type { Postgres } from './open.ts'

const migrations: Record<string, Migration> = {
  '001-keys-and-sites': keysAndSites,
  '002-site-registrations': siteRegistrations,
  '003-key-grants-and-site-settings': grantsAndSettings,
  '004-key-rotations': keyRotations,
  '005-cohorts': cohorts,
  '006-log-watermarks': logWatermarks,
  '011-log-lanes': logLanes,
}

function migrator(postgres: Postgres): Migrator {
  return new Migrator({ db: postgres.db, provider: { getMigrations: () => Promise.resolve(migrations) } })
}

/**
 * Applies the missing migrations in order, in one transaction. Returns the names of the applied migrations. Throws
 * AppError when the schema is newer than this build, and 503 while Postgres is away.
 */
export async function migratePostgres(postgres: Postgres): Promise<string[]> {
  return postgres.run(async () => {
    rejectNewerSchema(await schemaVersions(postgres))
    const { error, results = [] } = await migrator(postgres).migrateToLatest()
    if (error !== undefined) throw error instanceof Error ? error : new Error('migration failed', { cause: error })
    return results.map(({ migrationName }) => migrationName)
  })
}

/** Throws AppError, with what to do, when the schema is older or newer than this build; 503 while Postgres is away. */
export async function checkPostgresSchema(postgres: Postgres): Promise<void> {
  await postgres.run(async () => {
    requireCurrentSchema(await schemaVersions(postgres))
  })
}

/** The name of an advisory lock: an arbitrary number that is the same in every build. */
const migrationLock = 5_757_005
const lockRetryMs = 200

/**
 * Runs `work` while no other process migrates, and waits for the other one without a time limit. The lock ends with the
 * connection of its holder.
 */
export async function withMigrationLock<T>(postgres: Postgres, work: () => Promise<T>): Promise<T> {
  return postgres.run((db) =>
    db.connection().execute(async (connection) => {
      // The lock is polled, because a statement that waits for it would exceed the pool's time-out.
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

async function schemaVersions(postgres: Postgres): Promise<SchemaVersions> {
  return { engine: 'Postgres', applied: await appliedMigrations(postgres), known: Object.keys(migrations) }
}

async function appliedMigrations(postgres: Postgres): Promise<string[]> {
  const { rows: tables } = await sql<{
    found: boolean
  }>`SELECT to_regclass('kysely_migration') IS NOT NULL AS found`.execute(postgres.db)
  if (tables[0]?.found !== true) return []
  const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(postgres.db)
  return rows.map(({ name }) => name)
}
