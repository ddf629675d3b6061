import { type Selectable, sql } from 'kysely'
import type { ExportSpec, Frequency } from '@sluice/contracts/exports'
import { type LeaseKey, LeaseLostError } from '@sluice/leases/lease-table'
import { type ExportRecord, findRecord, insertExport, type NewExport } from './export-records.ts'
import { leaseEnd, progress as leaseProgress, updateHeld } from './leases.ts'
import { lockReceiptTimes } from './receipt-time-lock.ts'
import type { Db, Tables } from './tables.ts'
import { toDate } from './time.ts'

/** A schedule as a job that is due at its next occurrence. Times are Unix ms. */
export interface ExportSchedule {
  scheduleId: string
  frequency: Frequency
  anchor: number
  nextRun: number
  /** The start of the next run's range of receipt times; null before the first run. */
  lastCutoff: number | null
}

/** The next run of a schedule. Times are Unix ms. */
export interface NewRun {
  exportId: string
  spec: ExportSpec
  /**
   * For runs that select by time of receipt: where the first run begins, and the time until which all accepted events
   * can be read. Null: the run reads everything that was received before `at`.
   */
  receipt: { firstFrom: number; completeUntil: number } | null
  /** The occurrence after this one. */
  nextRun: number
}

/** A user's changes of an export; absent fields keep their values. */
export interface ExportChanges {
  name?: string
  /** Only for schedules. `nextRun` is Unix ms. */
  scheduled?: { frequency?: Frequency; nextRun?: number; paused?: boolean }
}

/** Stores the schedule of the export `scheduleId`. It is due at its first run, unless it is paused. */
export async function insertSchedule(
  db: Db,
  scheduleId: string,
  { frequency, nextRun, paused }: NonNullable<NewExport['scheduled']>,
): Promise<void> {
  const at = new Date(nextRun)
  await db
    .insertInto('export_schedules')
    .values({ schedule_id: scheduleId, frequency, anchor: at, next_run: at, paused, due_at: paused ? null : at })
    .execute()
}

/**
 * A worker that is making a run loses its lease, because it would advance the schedule by its former settings. Only
 * another frequency or next run sets a new anchor: a schedule of the 31st stays one of the 31st after its next run on
 * the 28th.
 */
export async function updateSchedule(
  db: Db,
  scheduleId: string,
  { frequency, nextRun, paused }: NonNullable<ExportChanges['scheduled']>,
): Promise<void> {
  const next = sql`coalesce(${toDate(nextRun ?? null)}::timestamptz, next_run)`
  const newFrequency = sql`coalesce(${frequency ?? null}, frequency)`
  const isPaused = sql`coalesce(${paused ?? null}::boolean, paused)`
  await sql`
    UPDATE export_schedules SET
      frequency = ${newFrequency},
      anchor = CASE WHEN (${newFrequency}, ${next}) IS DISTINCT FROM (frequency, next_run) THEN ${next} ELSE anchor END,
      next_run = ${next}, paused = ${isPaused}, due_at = CASE WHEN ${isPaused} THEN NULL ELSE ${next} END,
      status = 'active', error = NULL, ${leaseProgress}, ${leaseEnd}
    WHERE schedule_id = ${scheduleId}`.execute(db)
}

/**
 * Stores the next run of a schedule, and advances the schedule. Undefined if this occurrence already has its run.
 * Throws LeaseLostError without the lease.
 */
export async function insertRun(
  db: Db,
  lease: LeaseKey,
  { exportId, spec, receipt, nextRun }: NewRun,
  at: number,
): Promise<ExportRecord | undefined> {
  const definition = await findRecord(db, lease.id)
  // With the lock, an import of the site is accepted, or a run of the schedule is recorded as failed, either before or
  // after this transaction.
  await lockReceiptTimes(db, definition.siteId)
  const { rows } = await sql<{ last_cutoff: Date | null; next_run: Date }>`
    SELECT last_cutoff, next_run FROM export_schedules WHERE schedule_id = ${lease.id}`.execute(db)
  const [schedule] = rows
  if (!schedule) throw new LeaseLostError(lease)
  const from = receipt && (schedule.last_cutoff?.getTime() ?? receipt.firstFrom)
  const cutoff =
    receipt === null || from === null
      ? at + 1
      : Math.max(
          from,
          Math.min(at, receipt.completeUntil, await firstUnstoredImport(db, definition.siteId, receipt.completeUntil)),
        )
  const isNew = await insertExport(
    db,
    { ...definition, exportId, spec },
    {
      schedule_id: lease.id,
      occurrence: schedule.next_run,
      received_from: toDate(from),
      received_until: new Date(cutoff),
      created_at: new Date(at),
      due_at: new Date(at),
    },
  )
  const lastCutoff = isNew && receipt ? new Date(cutoff) : schedule.last_cutoff
  await updateHeld(
    db,
    'export_schedules',
    lease,
    sql`last_cutoff = ${lastCutoff}, next_run = ${new Date(nextRun)}, due_at = ${new Date(nextRun)}, ${leaseProgress}`,
  )
  return isNew ? findRecord(db, exportId) : undefined
}

/** For this long, an import that was cancelled or failed may still publish, until its worker notices. */
const lastPublishedMs = 600_000

/**
 * Unix ms of the acceptance of the site's oldest import of events that is unfinished, or that may have published rows
 * which are not stored yet. All rows that were published before `completeUntil` are stored. Infinity when there is no
 * such import.
 */
async function firstUnstoredImport(db: Db, siteId: string, completeUntil: number): Promise<number> {
  const { rows } = await sql<{ accepted_at: Date | null }>`
    SELECT min(accepted_at) AS accepted_at FROM imports
    WHERE site_id = ${siteId} AND type = 'events' AND (
      status IN ('queued', 'processing')
      OR status IN ('cancelled', 'failed') AND finished_at > ${new Date(completeUntil - lastPublishedMs)}
    )`.execute(db)
  return rows[0]?.accepted_at?.getTime() ?? Infinity
}

/** Converts a row of `export_schedules`. */
export function toSchedule(row: Selectable<Tables['export_schedules']>): ExportSchedule {
  return {
    scheduleId: row.schedule_id,
    frequency: row.frequency,
    anchor: row.anchor.getTime(),
    nextRun: row.next_run.getTime(),
    lastCutoff: row.last_cutoff?.getTime() ?? null,
  }
}
