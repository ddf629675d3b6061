import { type Insertable, type RawBuilder, type Selectable, sql } from 'kysely'
import type { Criteria } from '@sluice/contracts/conditions'
import type { EventKey, ExportSpec, ExportStatus, Frequency } from '@sluice/contracts/exports'
import type { Page } from '@sluice/contracts/paging'
import type { Postgres } from './open.ts'
import { requirePageSize } from './page.ts'
import type { Db, Tables } from './tables.ts'

/** The schedule of a record that defines one. */
export interface RecordedSchedule {
  frequency: Frequency
  /** Unix ms of the next occurrence. */
  nextRun: number
  paused: boolean
}

/**
 * An export's record, which is also the worker's job. The record of a schedule is not a job: it shows the status,
 * counts, times and error of its latest run, and is `queued` before the first run.
 */
export interface ExportRecord {
  exportId: string
  /** The schedule of a run; null for other exports. */
  scheduleId: string | null
  /** Unix ms for which the run was planned; null for other exports. */
  occurrence: number | null
  siteId: string
  keyId: string
  name: string
  /** The spec. For a run of stats, its range is the run's period. */
  spec: ExportSpec
  status: ExportStatus
  /** Only events that were received at that time (Unix ms) or later are read; null: no limit. */
  receivedFrom: number | null
  /** Only events that were received before that time (Unix ms) are read; null for a schedule. */
  receivedUntil: number | null
  rows: number
  /** Size of the file in bytes; 0 before it is complete. */
  bytes: number
  /** Percent of the work that is done, an estimate. */
  progress: number
  /** The blob of the file, and its multipart upload while that runs; null before the file is begun. */
  object: string | null
  uploadId: string | null
  /** The key of the last row in the recorded parts; null when there are none. */
  afterKey: EventKey | null
  /** ETag of the file, without quotes; null before it is complete. */
  etag: string | null
  /**
   * How often the file was begun again: its upload could not be completed, there was no space for it, or an erasure
   * withdrew it.
   */
  restarts: number
  /** The criteria of the cohort when the file was begun; null when no file is being written, or without a cohort. */
  cohortCriteria: Criteria | null
  /** Why the export failed, or why its file was removed early, for users. */
  error: string | null
  /** Unix ms. */
  createdAt: number
  /** Unix ms; null: the export is unfinished. */
  finishedAt: number | null
  /** Unix ms at which the file is removed; null before it is complete for the first time. */
  expiresAt: number | null
  /** Null for other exports than schedules. */
  scheduled: RecordedSchedule | null
}

/** An export, or the schedule of one, that is to be stored. */
export type NewExport = Pick<ExportRecord, 'exportId' | 'siteId' | 'keyId' | 'name' | 'spec'> & {
  /** `nextRun` is the first occurrence. The others are counted from it. */
  scheduled?: RecordedSchedule
}

/** The columns in which a one-off export, a schedule and its runs differ. */
type JobColumns = Pick<
  Insertable<Tables['exports']>,
  'created_at' | 'due_at' | 'received_from' | 'received_until' | 'schedule_id' | 'occurrence'
>

/** Stores nothing and returns false if the schedule already has a run for this occurrence. */
export async function insertExport(
  db: Db,
  { exportId, siteId, keyId, name, spec }: Omit<NewExport, 'scheduled'>,
  columns: JobColumns,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('exports')
    .values({
      export_id: exportId,
      site_id: siteId,
      key_id: keyId,
      name,
      type: spec.type,
      spec: JSON.stringify(spec),
      status: 'queued',
      ...columns,
    })
    .onConflict((conflict) => conflict.columns(['schedule_id', 'occurrence']).doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

/** SQL of the assignments of an export that has no file. */
export const withoutFile = sql`object = NULL, upload_id = NULL, after_key = NULL, rows = 0, progress = 0`

/** The same for an export whose file will have the criteria that its cohort has then. */
export const fromFirstRow = sql`${withoutFile}, cohort_criteria = NULL`

/** SQL of the assignment that counts a restart if the file had been begun. */
export const countRestart = sql`restarts = restarts + (exports.upload_id IS NOT NULL)::int`

/** A row of `exports`, with columns of its schedule and of the schedule's latest run. */
interface RecordRow extends Selectable<Tables['exports']> {
  frequency?: Frequency | null
  next_run?: Date | null
  paused?: boolean | null
}

/**
 * The records that meet `condition` on the columns of `exports`. If two columns have the same name, the driver uses the
 * second one: for a schedule, that is the column of its latest run.
 */
export function selectRecords(
  condition: RawBuilder<unknown>,
  rest: RawBuilder<unknown> = sql``,
): RawBuilder<RecordRow> {
  return sql<RecordRow>`
    SELECT
      found.*, schedule.frequency, schedule.next_run, schedule.paused,
      coalesce(run.status, CASE WHEN schedule.status = 'failed' THEN 'failed' ELSE found.status END) AS status,
      coalesce(run.rows, found.rows) AS rows,
      coalesce(run.bytes, found.bytes) AS bytes,
      coalesce(run.progress, found.progress) AS progress,
      coalesce(run.finished_at, found.finished_at) AS finished_at,
      coalesce(run.expires_at, found.expires_at) AS expires_at,
      coalesce(schedule.error, run.error, found.error) AS error
    FROM (SELECT * FROM exports WHERE ${condition} ${rest}) AS found
    LEFT JOIN export_schedules AS schedule ON schedule.schedule_id = found.export_id
    LEFT JOIN LATERAL (
      SELECT * FROM exports AS run
      WHERE run.schedule_id = found.export_id AND schedule.schedule_id IS NOT NULL
      ORDER BY run.seq DESC LIMIT 1
    ) AS run ON true`
}

/** The record of an export that this transaction has written or locked. */
export async function findRecord(db: Db, exportId: string): Promise<ExportRecord> {
  const { rows } = await selectRecords(sql`export_id = ${exportId}`).execute(db)
  if (!rows[0]) throw new Error(`${exportId} has vanished in its transaction`)
  return toRecord(rows[0])
}

/**
 * A page of the records that meet `condition`, sorted by `order`, and the number of all of them. Throws AppError
 * `invalid_field` for a page whose filters are too large in total.
 */
export function listRecords(
  postgres: Postgres,
  condition: RawBuilder<unknown>,
  order: RawBuilder<unknown>,
  { limit, offset }: Page,
): Promise<{ records: ExportRecord[]; total: number }> {
  return postgres.run(async (db) => {
    const page = sql`ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`
    await requirePageSize(db, sql`SELECT spec AS document FROM exports WHERE ${condition} ${page}`)
    const { rows } = await sql<RecordRow>`${selectRecords(condition, page)} ORDER BY ${order}`.execute(db)
    const counted = await sql<{ total: string }>`SELECT count(*) AS total FROM exports WHERE ${condition}`.execute(db)
    return { records: rows.map(toRecord), total: Number(counted.rows[0]?.total) }
  })
}

/** Converts a row of `selectRecords`. */
export function toRecord(row: RecordRow): ExportRecord {
  const { frequency, next_run: nextRun, paused } = row
  return {
    exportId: row.export_id,
    scheduleId: row.schedule_id,
    occurrence: row.occurrence?.getTime() ?? null,
    siteId: row.site_id,
    keyId: row.key_id,
    name: row.name,
    spec: row.spec,
    status: row.status,
    receivedFrom: row.received_from?.getTime() ?? null,
    receivedUntil: row.received_until?.getTime() ?? null,
    rows: Number(row.rows),
    bytes: Number(row.bytes),
    progress: row.progress,
    object: row.object,
    uploadId: row.upload_id,
    afterKey: row.after_key,
    etag: row.etag,
    restarts: row.restarts,
    cohortCriteria: row.cohort_criteria,
    error: row.error,
    createdAt: row.created_at.getTime(),
    finishedAt: row.finished_at?.getTime() ?? null,
    expiresAt: row.expires_at?.getTime() ?? null,
    scheduled: frequency && nextRun ? { frequency, nextRun: nextRun.getTime(), paused: paused === true } : null,
  }
}
