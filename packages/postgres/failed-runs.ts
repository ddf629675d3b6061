import { sql } from 'kysely'
import { fromFirstRow } from './export-records.ts'
import { leaseEnd, progress } from './leases.ts'
import { lockReceiptTimes } from './receipt-time-lock.ts'
import type { Db } from './tables.ts'

/** A run by time of receipt, which is to read what was received from `from` on and before `until`. */
export interface FailingRun {
  exportId: string
  scheduleId: string
  from: Date
  until: Date
  /** Whether there was a file of it, which an erasure has removed. */
  hadFile: boolean
}

/** A failed run whose rows no other run can read is tried again after this time. */
const repeatedAfterMs = 3_600_000

/**
 * Locks an unfinished run by time of receipt, and before it what `lockReceiptTimes` locks: runs of the schedule are made
 * before or after this transaction. Undefined: the export is none, or reads no time, or has ended.
 */
export async function lockFailingRun(transaction: Db, exportId: string): Promise<FailingRun | undefined> {
  const run = await transaction
    .selectFrom('exports')
    .select('site_id')
    .where('export_id', '=', exportId)
    .where('schedule_id', 'is not', null)
    .executeTakeFirst()
  if (!run) return undefined
  await lockReceiptTimes(transaction, run.site_id)
  const { rows } = await sql<FailingRun>`
    SELECT
      export_id AS "exportId", schedule_id AS "scheduleId", received_from AS "from", received_until AS "until",
      expires_at IS NOT NULL AS "hadFile"
    FROM exports
    WHERE export_id = ${exportId} AND received_from < received_until AND due_at IS NOT NULL
    FOR UPDATE`.execute(transaction)
  return rows[0]
}

/**
 * Leaves what a failed run would have read to the run that begins at its end: to the next one that the schedule makes,
 * or to one that has been made and never had a file. Without such a run, and if the failed one had a file that may have
 * been downloaded, it is due again, until that file would have expired.
 */
export async function reassignRange(transaction: Db, run: FailingRun, at: number): Promise<void> {
  if (!run.hadFile && ((await handToSchedule(transaction, run)) || (await handToNextRun(transaction, run, at)))) return
  const dueAt = new Date(at + repeatedAfterMs)
  await sql`
    UPDATE exports SET
      ${fromFirstRow}, restarts = 0, ${progress}, due_at = CASE WHEN expires_at <= ${dueAt} THEN NULL ELSE ${dueAt}::timestamptz END
    WHERE export_id = ${run.exportId}`.execute(transaction)
}

async function handToSchedule(transaction: Db, { scheduleId, from, until }: FailingRun): Promise<boolean> {
  const { numAffectedRows } = await sql`
    UPDATE export_schedules SET last_cutoff = ${from}
    WHERE schedule_id = ${scheduleId} AND last_cutoff = ${until}`.execute(transaction)
  return numAffectedRows === 1n
}

async function handToNextRun(transaction: Db, { scheduleId, from, until }: FailingRun, at: number): Promise<boolean> {
  const { rows } = await sql<{ export_id: string }>`
    WITH next AS MATERIALIZED (
      SELECT export_id FROM exports
      WHERE schedule_id = ${scheduleId} AND received_from = ${until} AND due_at IS NOT NULL AND expires_at IS NULL
      ORDER BY seq LIMIT 1 FOR UPDATE
    )
    UPDATE exports SET
      received_from = ${from}, status = 'queued', error = NULL, finished_at = NULL, ${fromFirstRow},
      due_at = ${new Date(at)}, ${leaseEnd}
    FROM next WHERE exports.export_id = next.export_id
    RETURNING exports.export_id`.execute(transaction)
  const [next] = rows
  if (!next) return false
  await transaction.deleteFrom('export_parts').where('export_id', '=', next.export_id).execute()
  return true
}
