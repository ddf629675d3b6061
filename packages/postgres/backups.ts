import { sql } from 'kysely'
import type { Postgres } from './open.ts'
import { toDate } from './time.ts'

/** `postgres`: a newer dump of Postgres has replaced the one in an earlier backup. */
export type BackupKind = 'full' | 'incremental' | 'postgres'

/** A backup that is to be recorded. */
export interface FinishedBackup {
  backupId: string
  kind: BackupKind
  /** The URL that the backup was written to; it holds no credentials. */
  target: string
  /** Unix ms. */
  startedAt: number
  /** Unix ms; default: now, by the clock of Postgres. */
  finishedAt?: number
}

/**
 * Maximum number of rows of each kind, so that the table does not grow without limit. The limit is for each kind, so
 * that frequent dumps of Postgres do not remove the last backup of the events, whose age is a metric.
 */
const rowsPerKindMax = 1_000

/** The backups that were finished. Every method throws AppError `unavailable` while Postgres is unavailable. */
export interface BackupStore {
  /** Records a finished backup. Recording it again changes nothing. */
  add(backup: FinishedBackup): Promise<void>
  /** When the events were last backed up, in Unix ms; undefined if never. A dump of Postgres alone does not count. */
  lastFinishedAt(): Promise<number | undefined>
}

/** The finished backups that this Postgres knows. */
export function backupStore(postgres: Postgres): BackupStore {
  return {
    add: ({ backupId, kind, target, startedAt, finishedAt = null }) =>
      postgres.run(async (db) => {
        await sql`
          INSERT INTO backups (backup_id, kind, target, started_at, finished_at)
          VALUES (${backupId}, ${kind}, ${target}, ${new Date(startedAt)}, coalesce(${toDate(finishedAt)}::timestamptz, now()))
          ON CONFLICT (backup_id) DO NOTHING`.execute(db)
        await sql`
          DELETE FROM backups WHERE backup_id IN
            (SELECT backup_id FROM backups WHERE kind = ${kind} ORDER BY finished_at DESC OFFSET ${rowsPerKindMax})`.execute(
          db,
        )
      }),
    lastFinishedAt: () =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ at: Date | null }>`
          SELECT max(finished_at) AS at FROM backups WHERE kind <> 'postgres'`.execute(db)
        return rows[0]?.at?.getTime()
      }),
  }
}
