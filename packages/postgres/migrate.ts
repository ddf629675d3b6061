import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { withDeadline } from '@sluice/runtime/deadline'
import { AppError, errorCode, internalError, internalMessage } from '@sluice/runtime/errors'
import {
  type AppliedMigrations,
  missingMigrations,
  requireWorkableSchema,
  type SchemaVersions,
} from '@sluice/runtime/schema-versions'
import { sleep } from '@sluice/runtime/sleep'
import * as keysAndSites from './migrations/001-keys-and-sites.ts'
import * as siteRegistrations from './migrations/002-site-registrations.ts'
import * as grantsAndSettings from './migrations/003-key-grants-and-site-settings.ts'
import * as keyRotations from './migrations/004-key-rotations.ts'
import * as cohorts from './migrations/005-cohorts.ts'
import * as logWatermarks from './migrations/006-log-watermarks.ts'
import * as changeTransactions from './migrations/007-change-transactions.ts'
import * as replayPositions from './migrations/010-replay-positions.ts'
import * as logLanes from './migrations/011-log-lanes.ts'
import * as imports from './migrations/012-imports.ts'
import * as exports from './migrations/014-exports.ts'
import * as erasures from './migrations/015-erasures.ts'
import * as webhooks from './migrations/016-webhooks.ts'
import * as alerts from './migrations/017-alerts.ts'
import * as summaries from './migrations/018-summaries.ts'
import * as keyOrigins from './migrations/019-key-origins.ts'
import * as exportRestarts from './migrations/020-export-restarts.ts'
import * as siteDeletions from './migrations/021-site-deletions.ts'
import * as backups from './migrations/022-backups.ts'
import * as canary from './migrations/023-canary.ts'
import * as shards from './migrations/024-shards.ts'
import * as reshard from './migrations/025-reshard.ts'
import * as exportCohorts from './migrations/026-export-cohorts.ts'
import * as settledRecipients from './migrations/027-settled-recipients.ts'
import * as retentionRuns from './migrations/028-retention-runs.ts'
import * as indexes from './migrations/029-indexes.ts'
import * as emailTests from './migrations/030-email-tests.ts'
import * as erasureTurns from './migrations/031-erasure-turns.ts'
import * as erasureHashes from './migrations/032-erasure-hashes.ts'
import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'

/** A migration with the builds that can work with its schema. */
export interface VersionedMigration extends Migration {
  /** The number of the oldest build that can work with the schema that the migration leaves. */
  oldestBuild: number
}

export type Migrations = Readonly<Record<string, VersionedMigration>>

/** The migrations of this build, in order. */
export const migrations: Migrations = {
  '001-keys-and-sites': keysAndSites,
  '002-site-registrations': siteRegistrations,
  '003-key-grants-and-site-settings': grantsAndSettings,
  '004-key-rotations': keyRotations,
  '005-cohorts': cohorts,
  '006-log-watermarks': logWatermarks,
  '007-change-transactions': changeTransactions,
  '010-replay-positions': replayPositions,
  '011-log-lanes': logLanes,
  '012-imports': imports,
  '014-exports': exports,
  '015-erasures': erasures,
  '016-webhooks': webhooks,
  '017-alerts': alerts,
  '018-summaries': summaries,
  '019-key-origins': keyOrigins,
  '020-export-restarts': exportRestarts,
  '021-site-deletions': siteDeletions,
  '022-backups': backups,
  '023-canary': canary,
  '024-shards': shards,
  '025-reshard': reshard,
  '026-export-cohorts': exportCohorts,
  '027-settled-recipients': settledRecipients,
  '028-retention-runs': retentionRuns,
  '029-indexes': indexes,
  '030-email-tests': emailTests,
  '031-erasure-turns': erasureTurns,
  '032-erasure-hashes': erasureHashes,
}

/**
 * Time limits of a connection for migrations: creating an index on a large table takes long, so statements have no
 * limit. Waiting for a table's lock has one, because the statements of services wait behind it.
 */
export const migrationTimes = { queryTimeoutMs: 0, lockTimeoutMs: 2_000 } as const
/**
 * The server's error codes when a statement has waited too long for a lock, and when it was ended in a deadlock: a
 * migration that has read a table and then changes it can meet a transaction that does the same.
 */
const lockCodes: readonly unknown[] = ['55P03', '40P01']
/** The pause between attempts, in which services can use the table. */
const tableRetryMs = 1_000

/**
 * Applies the missing migrations in order, in one transaction; none if a newer build left the schema. Returns the names
 * of the applied migrations. If another transaction uses a table, for example one of pg_dump, waits in several attempts
 * for up to `timeoutMs`: while a statement waits for a table lock, everybody else who uses the table has to wait too.
 * Throws AppError when this build can't work with the schema, AppError with what to do when a table stays in use, and
 * AppError `unavailable` while Postgres is unavailable.
 */
export async function migratePostgres(
  postgres: Postgres,
  wanted: Migrations = migrations,
  { timeoutMs = lockTimeoutMsDefault }: { timeoutMs?: number } = {},
): Promise<string[]> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    try {
      return await applyMissing(postgres, wanted)
    } catch (error) {
      const cause = error instanceof AppError ? error.cause : error
      if (!lockCodes.includes(errorCode(cause))) throw error
      if (performance.now() >= deadline) {
        throw internalError(
          `Another transaction has used a table that is to be changed for more than ${timeoutMs / 1000} s. Wait for it, e.g. for ` +
            'pg_dump, or end its session (pg_stat_activity), and run the command again. Nothing was changed.',
          error,
        )
      }
    }
    await sleep(tableRetryMs)
  }
}

async function applyMissing(postgres: Postgres, wanted: Migrations): Promise<string[]> {
  return postgres.run(async () => {
    if (await hasAll(postgres, wanted)) return []
    // Recorded before the migrations: a build that finds one of them applied must be able to tell whether it can work
    // with it.
    await recordOldestBuilds(postgres, wanted)
    const provider = { getMigrations: () => Promise.resolve({ ...wanted }) }
    const { error, results = [] } = await new Migrator({ db: postgres.db, provider }).migrateToLatest()
    if (error !== undefined) throw error instanceof Error ? error : new Error('migration failed', { cause: error })
    return results.map(({ migrationName }) => migrationName)
  })
}

async function recordOldestBuilds({ db }: Postgres, wanted: Migrations): Promise<void> {
  const oldestBuilds = Object.values(wanted).map(({ oldestBuild }) => oldestBuild)
  await sql`
    CREATE TABLE IF NOT EXISTS migration_builds (name text PRIMARY KEY, oldest_build integer NOT NULL)`.execute(db)
  await sql`
    INSERT INTO migration_builds SELECT * FROM unnest(${Object.keys(wanted)}::text[], ${oldestBuilds}::integer[])
    ON CONFLICT (name) DO UPDATE SET oldest_build = greatest(migration_builds.oldest_build, excluded.oldest_build)`.execute(
    db,
  )
}

/** Whether all migrations are applied. Throws the errors of `migratePostgres`. */
export async function isMigrated(postgres: Postgres): Promise<boolean> {
  return postgres.run(() => hasAll(postgres, migrations))
}

async function hasAll(postgres: Postgres, wanted: Migrations): Promise<boolean> {
  return missingMigrations(await schemaVersions(postgres, wanted)).length === 0
}

/**
 * Throws AppError, with what to do, when this build can't work with the schema; AppError `unavailable` while Postgres
 * is unavailable.
 */
export async function checkPostgresSchema(postgres: Postgres): Promise<void> {
  await postgres.run(async () => {
    requireWorkableSchema(await schemaVersions(postgres, migrations))
  })
}

/**
 * The migrations that were applied, each with the oldest build that can work with it. Throws AppError `unavailable`
 * while Postgres is unavailable.
 */
export async function appliedPostgresMigrations(postgres: Postgres): Promise<AppliedMigrations> {
  return postgres.run(async () => [...(await schemaVersions(postgres, migrations)).applied])
}

/** Throws AppError, with what to do, when this build can't work with a schema that has had these migrations. */
export function rejectNewerPostgresSchema(applied: AppliedMigrations): void {
  missingMigrations({ engine: 'Postgres', applied: new Map(applied), known: Object.keys(migrations) })
}

/** Name of the advisory lock: an arbitrary number, which must be the same in every build. */
const migrationLock = 5_757_005
const lockRetryMs = 200
/** Longer than most migrations take. If one takes longer, whoever started the command should see a message. */
const lockTimeoutMsDefault = 300_000

/** Proxies and firewalls end connections that are idle for minutes; work in ClickHouse may take longer. */
const aliveMsDefault = 60_000

interface MigrationLockOptions {
  timeoutMs?: number
  aliveMs?: number
  /** The result of `work` is returned even if the lock was lost. */
  outlivesLock?: boolean
}

/**
 * Runs `work` while no migration, reshard or restore runs in another process. The lock ends with the connection of its
 * holder, which sends a statement every `aliveMs`, so that it is not idle. Throws AppError, with what to do, when
 * another process holds the lock for longer than `timeoutMs`. Also throws it when a pooler assigns the connection to
 * other clients between statements, because the lock would then have no effect. When the connection is lost, throws it
 * at once, and the process has to end, because `work` still runs; with `outlivesLock`, it settles as `work` does. An
 * error of `work` is thrown as it is.
 */
export async function withMigrationLock<T>(
  postgres: Postgres,
  work: () => Promise<T>,
  { timeoutMs = lockTimeoutMsDefault, aliveMs = aliveMsDefault, outlivesLock = false }: MigrationLockOptions = {},
): Promise<T> {
  const result = await postgres.run((db) =>
    db.connection().execute(async (connection) => {
      await requireOwnSession(connection, db)
      const deadline = performance.now() + timeoutMs
      // The lock is polled, because a statement that waits for it would exceed the pool's time-out.
      while (!(await tryLock(connection))) {
        if (performance.now() >= deadline) throw lockIsHeld(await holderOf(connection), timeoutMs)
        await sleep(lockRetryMs)
      }
      const lost = Promise.withResolvers<never>()
      const state = { isLost: false }
      const timer = setInterval(() => {
        const answer = sql`SELECT 1`.execute(connection)
        withDeadline(answer, aliveMs, () => new Error('no answer')).catch((error: unknown) => {
          state.isLost = true
          clearInterval(timer)
          if (!outlivesLock) lost.reject(lockIsLost(error))
        })
      }, aliveMs)
      // Settled here and rethrown outside of `run`, which would report an error of another engine as one of Postgres.
      const outcome = work().then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      )
      try {
        const settled = await Promise.race([outcome, lost.promise])
        if (!state.isLost) {
          const answer = sql`SELECT pg_advisory_unlock(${migrationLock})`.execute(connection)
          await withDeadline(answer, aliveMs, () => new Error('no answer')).catch((error: unknown) => {
            if (!outlivesLock && 'value' in settled) throw error
          })
        }
        return settled
      } finally {
        clearInterval(timer)
      }
    }),
  )
  if ('error' in result) throw result.error
  return result.value
}

async function tryLock(connection: Db): Promise<boolean> {
  const { rows } = await sql<{ locked: boolean }>`SELECT pg_try_advisory_lock(${migrationLock}) AS locked`.execute(
    connection,
  )
  return rows[0]?.locked === true
}

/** The server process that holds the lock. */
async function holderOf(connection: Db): Promise<number | undefined> {
  const { rows } = await sql<{ pid: number }>`
    SELECT pid FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 0 AND objid = ${migrationLock} AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`.execute(connection)
  return rows[0]?.pid
}

function lockIsLost(reason: unknown): AppError {
  return internalError(
    `The connection to Postgres that kept other processes from migrating, resharding or restoring was lost ` +
      `(${internalMessage(reason)}). Run the command again.`,
    reason,
  )
}

function lockIsHeld(pid: number | undefined, timeoutMs: number): AppError {
  return internalError(
    `Another process has been migrating, resharding or restoring for more than ${timeoutMs / 1000} s. Wait for it and run the ` +
      `command again; only if its machine is gone, end its session with "SELECT pg_terminate_backend(${pid ?? '<pid>'})".`,
  )
}

/** Number of statements after which a pooler that rotates its server connections has used several. */
const sessionProbes = 4

/**
 * Throws AppError when this connection does not have a Postgres session of its own. A transaction pooler is recognised
 * in one of two ways: statements of one connection run in several sessions, or statements of two connections run in the
 * same session.
 */
async function requireOwnSession(connection: Db, db: Db): Promise<void> {
  const sessions = new Set<number>()
  for (let probe = 0; probe < sessionProbes; probe++) sessions.add(await sessionOf(connection))
  // PgBouncer assigns the server connection that was used last. A second client gets it while the first client sends
  // nothing.
  await db.transaction().execute(async (other) => {
    if (sessions.size > 1 || sessions.has(await sessionOf(other))) {
      throw internalError(
        'SLUICE_POSTGRES_URL leads to a transaction pooler, behind which the migration lock has no effect. Set it to ' +
          'Postgres itself, or to a pool in session mode, and run the command again.',
      )
    }
  })
}

async function sessionOf(connection: Db): Promise<number> {
  const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(connection)
  return rows[0]?.pid ?? 0
}

/** A migration that would be applied, with its statements. */
export interface PlannedMigration {
  name: string
  statements: readonly PlannedStatement[]
}

/** A statement of a migration that is not applied yet. */
export interface PlannedStatement {
  sql: string
  /**
   * Upper bound of the bytes of the table that the statement reads or rewrites. 0 for a statement that changes only the
   * table's metadata.
   */
  bytes: number
}

/**
 * The missing migrations with the statements that they would execute without data. Nothing is changed. Throws the
 * errors of `migratePostgres`.
 */
export async function planPostgres(postgres: Postgres, wanted: Migrations = migrations): Promise<PlannedMigration[]> {
  return postgres.run(async (db) => {
    const missing = missingMigrations(await schemaVersions(postgres, wanted))
    const planned: PlannedMigration[] = []
    for (const name of missing) {
      const statements: PlannedStatement[] = []
      for (const text of await statementsOf(wanted[name])) {
        statements.push({ sql: text, bytes: await rewrittenBytes(db, text) })
      }
      planned.push({ name, statements })
    }
    return planned
  })
}

/** The statements that a migration would execute. A driver records them and executes none. */
async function statementsOf(migration: VersionedMigration | undefined): Promise<string[]> {
  const statements: string[] = []
  const recorder = new Kysely<never>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => {
      statements.push(query.sql.trim())
    },
  })
  await migration?.up(recorder)
  return statements
}

/**
 * Statements that read or rewrite all rows of a table: indexes, constraints, changed types, defaults that are not
 * constants.
 */
const rewriting =
  /^\s*(?:CREATE (?:UNIQUE )?INDEX\b[^]*?\bON|UPDATE|DELETE FROM|ALTER TABLE(?=[^]*\b(?:TYPE|SET NOT NULL|CHECK|REFERENCES|UNIQUE|PRIMARY KEY|DEFAULT [a-z_]+\()))\s+(?:ONLY\s+)?"?(\w+)"?/i

async function rewrittenBytes(db: Db, text: string): Promise<number> {
  const table = rewriting.exec(text)?.[1]
  if (table === undefined) return 0
  const { rows } = await sql<{ bytes: string | null }>`
    SELECT pg_table_size(to_regclass(quote_ident(${table}))) AS bytes`.execute(db)
  return Number(rows[0]?.bytes ?? 0)
}

async function schemaVersions({ db }: Postgres, wanted: Migrations): Promise<SchemaVersions> {
  const applied = new Map<string, number | null>()
  if (await hasTable(db, 'kysely_migration')) {
    const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(db)
    for (const { name } of rows) applied.set(name, null)
  }
  if (await hasTable(db, 'migration_builds')) {
    const { rows } = await sql<{ name: string; oldest_build: number }>`
      SELECT name, oldest_build FROM migration_builds`.execute(db)
    for (const { name, oldest_build } of rows) if (applied.has(name)) applied.set(name, oldest_build)
  }
  return { engine: 'Postgres', applied, known: Object.keys(wanted) }
}

async function hasTable(db: Db, name: string): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`SELECT to_regclass(${name}) IS NOT NULL AS found`.execute(db)
  return rows[0]?.found === true
}
