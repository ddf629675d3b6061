import { type Selectable, sql } from 'kysely'
import type { ErasureRecord } from './erasures.ts'
import { toErasureRecord } from './erasures.ts'
import { fromFirstRow } from './export-records.ts'
import type { Postgres } from './open.ts'
import type { Tables } from './tables.ts'

/** Findings for the operator after a restore, and the erasures that ClickHouse must repeat. */
export interface Reconciled {
  /** Erasures whose rows the backup of ClickHouse may still contain. All of them are queued again. */
  erasures: ErasureRecord[]
  /**
   * Erasures that can't be repeated, because an earlier build removed the hashes of their values. An operator must
   * request them again.
   */
  forgotten: { erasureId: string; siteId: string }[]
  /** Keys that were revoked since the backup of ClickHouse began; `revokedAt` is Unix ms. */
  revokedKeys: { keyId: string; name: string; revokedAt: number }[]
  /** Unfinished imports whose files exist. They are queued again from their first record. */
  repeatedImports: string[]
  /**
   * Imports that must be uploaded again: those that ended since then, whose files were removed, and those whose files
   * were not restored.
   */
  lostImports: string[]
}

/** Whether the database holds no table, other than those of extensions. */
export async function isEmptyPostgres(postgres: Postgres): Promise<boolean> {
  return postgres.run(async (db) => {
    const { rows } = await sql`
      SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%'
        AND NOT EXISTS (
          SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e'
        )
      LIMIT 1`.execute(db)
    return rows.length === 0
  })
}

/**
 * Adapts the records to a ClickHouse with the state of `at` (Unix ms), in one transaction. The times until which
 * answers are complete are deleted, because the writers have yet to store rows from the log again. For the same reason,
 * the files of running exports begin again. The log contains neither erasures nor imports of users: erasures that were
 * not completed before `at`, and unfinished imports of users, are queued again. With `withEventImports`, because the
 * log has lost events, unfinished imports of events are queued again too. A reshard that had begun has to begin again:
 * it may have been cancelled since, and gateways then placed events for the old number of shards. May be repeated.
 */
export async function reconcile(
  postgres: Postgres,
  { at, withEventImports }: { at: number; withEventImports: boolean },
): Promise<Reconciled> {
  const since = new Date(at)
  const isConcerned = withEventImports ? sql`true` : sql`type = 'users'`
  return postgres.transaction(async (transaction) => {
    await sql`DELETE FROM log_watermarks`.execute(transaction)
    await sql`UPDATE shards SET doubling_since = NULL`.execute(transaction)
    const { rows: erasures } = await sql<Selectable<Tables['erasures']>>`
      UPDATE erasures SET
        status = 'queued', step = 'tombstone', completed_at = NULL, failed_at = NULL, due_at = now(),
        lease_until = NULL, tries = 0, failures = 0
      WHERE (completed_at IS NULL OR completed_at >= ${since}) AND (kind IN ('site', 'before') OR key_hash IS NOT NULL)
      RETURNING *`.execute(transaction)
    const { rows: forgotten } = await sql<{ erasureId: string; siteId: string }>`
      SELECT erasure_id AS "erasureId", site_id AS "siteId" FROM erasures
      WHERE completed_at >= ${since} AND kind NOT IN ('site', 'before') AND key_hash IS NULL
      ORDER BY requested_at`.execute(transaction)
    const { rows: revoked } = await sql<{ keyId: string; name: string; revokedAt: Date }>`
      SELECT key_id AS "keyId", name, revoked_at AS "revokedAt" FROM api_keys
      WHERE revoked_at >= ${since} ORDER BY revoked_at`.execute(transaction)
    await sql`
      WITH begun AS (
        UPDATE exports SET ${fromFirstRow} WHERE status IN ('queued', 'processing') RETURNING export_id
      )
      DELETE FROM export_parts WHERE export_id IN (SELECT export_id FROM begun)`.execute(transaction)
    const { rows: repeated } = await sql<{ import_id: string }>`
      WITH repeated AS (
        UPDATE imports SET processed_records = 0, failed_records = 0
        WHERE ${isConcerned} AND status IN ('queued', 'processing') RETURNING import_id
      ), segments AS (
        UPDATE import_segments SET processed = 0, failed = 0, errors_object = NULL, positions = NULL
        WHERE import_id IN (SELECT import_id FROM repeated)
      )
      SELECT import_id FROM repeated ORDER BY import_id`.execute(transaction)
    const { rows: lost } = await sql<{ import_id: string }>`
      SELECT import_id FROM imports WHERE ${isConcerned} AND status = 'completed' AND finished_at >= ${since}
      ORDER BY import_id`.execute(transaction)
    return {
      erasures: erasures.map(toErasureRecord),
      forgotten,
      revokedKeys: revoked.map(({ revokedAt, ...key }) => ({ ...key, revokedAt: revokedAt.getTime() })),
      repeatedImports: repeated.map(({ import_id }) => import_id),
      lostImports: lost.map(({ import_id }) => import_id),
    }
  })
}
