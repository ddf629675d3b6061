import { sql } from 'kysely'
import { hourMs } from '@sluice/contracts/time-units'
import { fromFirstRow } from './export-records.ts'
import { leaseEnd, progress } from './leases.ts'
import { lockReceiptTimes } from './receipt-time-lock.ts'
import type { Db } from './tables.ts'

/**
 * A run by time of receipt. It reads what was received at `from` or later and before `until`. The times are those of the
 * driver: they are only compared with columns and stored again.
 */
export interface FailingRun {
  exportId: string
  scheduleId: string
  from: Date
  until: Date
  /** Whether the run had a file, which an erasure has removed. */
  hadFile: boolean
}

/** Delay before another attempt at a failed run whose rows no other run can read. */
const repeatedAfterMs = hourMs

/**
 * Locks an unfinished run by time of receipt. It first takes the lock of `lockReceiptTimes`, so that runs of the
 * schedule are made either before or after this transaction. Undefined when the export is not such a run, or has ended.
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
 * Hands the failed run's range to the run that begins where it ends: the next run of the schedule, or an existing run
 * that never had a file. If there is none, or if the failed run had a file that may have been downloaded, the failed
 * run is due again, until that file would have expired.
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
