import { sql } from 'kysely'
import { generateKey, hashKey, keyHint } from '@sluice/access/api-key'
import type { KeyStore, NewKey } from '@sluice/access/keys'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import type { Db } from '@sluice/postgres/tables'
import { within } from '@sluice/postgres/within'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { testPostgres } from './engines/test-engines.ts'

export interface TestPostgres extends Postgres {
  url: string
  /** Closes the pool and removes the database. */
  drop: () => Promise<void>
}

/** When many tests use Postgres at once, a new connection may take longer than services allow. */
export const patientPostgres = { connectTimeoutMs: 60_000 }

/** A fresh database on the test run's Postgres, with the schema of this build unless `migrated` is false. */
export async function openTestPostgres({ migrated = true } = {}): Promise<TestPostgres> {
  const database = await testPostgres({ migrated })
  const postgres = openPostgres(database.url, patientPostgres)
  return {
    ...postgres,
    url: database.url,
    drop: async () => {
      await postgres.close()
      await database.drop()
    },
  }
}

/**
 * Makes each statement fail that updates or deletes more than `rowsMax` rows of a table: with hundreds of thousands of
 * rows it would exceed its time-out.
 */
export async function refuseLargeStatements(
  db: Db,
  table: string,
  { events, rowsMax }: { events: readonly ('UPDATE' | 'DELETE')[]; rowsMax: number },
): Promise<void> {
  const refuse = sql.ref(`refuse_many_${table}`)
  await sql`
    CREATE FUNCTION ${refuse}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF (SELECT count(*) FROM changed) > ${sql.lit(rowsMax)} THEN RAISE 'changes too many rows'; END IF;
      RETURN NULL;
    END $$`.execute(db)
  for (const event of events) {
    await sql`
      CREATE TRIGGER ${sql.ref(`many_${event}`)} AFTER ${sql.raw(event)} ON ${sql.table(table)}
      REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION ${refuse}()`.execute(db)
  }
}

/** Gives a database the schema that it had before migration 026. */
export async function undoMigrationsSince026({ db }: Postgres): Promise<void> {
  await sql`ALTER TABLE exports DROP COLUMN cohort_criteria`.execute(db)
  await sql`ALTER TABLE deliveries DROP COLUMN settled_recipients`.execute(db)
  await sql`ALTER TABLE chores DROP COLUMN run_at, DROP COLUMN after_site`.execute(db)
  await sql`DROP INDEX exports_runs, exports_site_status, api_keys_created_at, deliveries_takeable`.execute(db)
  await sql`ALTER TABLE exports ADD UNIQUE (seq)`.execute(db)
  await sql`DROP TABLE email_tests`.execute(db)
  await sql`DROP INDEX erasures_site_due, erasures_deletable, erasures_hashes`.execute(db)
  await sql`DELETE FROM kysely_migration WHERE name >= '026'`.execute(db)
}

/** A key, by default one that may send events of every site: in the form for the store, and the key itself. */
export function newTestKey(parts: Partial<NewKey> = {}): { key: string; newKey: NewKey } {
  const { environment = 'prod' } = parts
  const key = generateKey(environment)
  return {
    key,
    newKey: {
      keyId: newId('key'),
      name: 'test',
      environment,
      scopes: ['events:write'],
      siteIds: null,
      rateLimits: null,
      allowedOrigins: null,
      hash: hashKey(key),
      hint: keyHint(key),
      expiresAt: null,
      bootstrap: false,
      ...parts,
    },
  }
}

/** Stores such a key. */
export async function createTestKey(
  store: Pick<KeyStore, 'create'>,
  parts: Partial<NewKey> = {},
): Promise<{ key: string; keyId: string }> {
  const { key, newKey } = newTestKey(parts)
  const record = await store.create(newKey, null)
  if (!record) throw new Error('the key was there already')
  return { key, keyId: record.keyId }
}

/**
 * Makes every key and site look unchanged, because polls return changes again while an older transaction is under way.
 */
export async function forgetChanges({ db }: Postgres): Promise<void> {
  await db.updateTable('api_keys').set({ changed_xid: null }).execute()
  await db.updateTable('sites').set({ changed_xid: null }).execute()
}

/** Resolves when `waiting` transactions of this database wait for a lock of another one. */
export function lockAwaited({ db }: Pick<Postgres, 'db'>, waiting = 1): Promise<void> {
  const isAwaited = async () => {
    // Not from pg_locks, where a wait for a transaction has no database: other tests' databases are on this server, too.
    const { rows } = await sql`
      SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND backend_type = 'client backend' AND wait_event_type = 'Lock'`.execute(db)
    return rows.length >= waiting
  }
  return waitUntil(isAwaited, 'a transaction waits for another one', 60_000)
}

/**
 * The rows that the statements of `work` read, including those that they skip, plus the number of their searches in
 * indexes. What `work` writes is undone.
 */
export async function countReads(postgres: Postgres, work: (postgres: Postgres) => Promise<unknown>): Promise<number> {
  const transaction = await postgres.db.startTransaction().execute()
  try {
    const before = await readsSoFar(transaction)
    await work(within(postgres, transaction))
    return (await readsSoFar(transaction)) - before
  } finally {
    await transaction.rollback().execute()
  }
}

async function readsSoFar(db: Db): Promise<number> {
  const { rows } = await sql<{ reads: string }>`
    SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + coalesce(idx_scan, 0)) AS reads
    FROM pg_stat_xact_user_tables`.execute(db)
  return Number(rows[0]?.reads)
}

/** Every row of every table. */
export async function allRows({ db }: Pick<Postgres, 'db'>): Promise<unknown[]> {
  const { rows: tables } = await sql<{ name: string }>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`.execute(db)
  return Promise.all(tables.map(async ({ name }) => (await sql`SELECT * FROM ${sql.table(name)}`.execute(db)).rows))
}

/** Runs `work` while nothing else can read or write the table. */
export async function whileLocked({ db }: Postgres, table: string, work: () => Promise<void>): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    await sql`LOCK TABLE ${sql.table(table)} IN ACCESS EXCLUSIVE MODE`.execute(transaction)
    await work()
  })
}
