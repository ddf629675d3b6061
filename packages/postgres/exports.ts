import { type RawBuilder, sql } from 'kysely'
import type { Criteria } from '@sluice/contracts/conditions'
import type { EventKey, ExportType } from '@sluice/contracts/exports'
import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { queueCompletion } from './export-completion.ts'
import { lockExportCreation, requireExportAllowed } from './export-limits.ts'
import {
  countRestart,
  type ExportRecord,
  findRecord,
  fromFirstRow,
  insertExport,
  listRecords,
  type NewExport,
  selectRecords,
  toRecord,
  withoutFile,
} from './export-records.ts'
import {
  type ExportChanges,
  type ExportSchedule,
  insertRun,
  insertSchedule,
  type NewRun,
  toSchedule,
  updateSchedule,
} from './export-schedules.ts'
import { lockFailingRun, reassignRange } from './failed-runs.ts'
import { leaseEnd, leaseTable, progress as leaseProgress, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import { lockSite } from './sites.ts'
import type { Db } from './tables.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** A part of the file, in the form in which the blob store completes it. */
export interface ExportPart {
  /** From 1. */
  n: number
  etag: string
  bytes: number
}

/** The parts that a unit of work has added to the file, and the progress after them. */
export interface ExportProgress {
  parts: readonly ExportPart[]
  /** The key of the last row in the parts. */
  afterKey: EventKey
  /** Rows of all parts so far. */
  rows: number
  progress: number
}

/** The files of an export whose record is deleted. */
export interface ExportFiles {
  objects: string[]
  uploads: { name: string; uploadId: string }[]
}

/**
 * Exports in Postgres. Exports of sites that are not in `siteIds` are treated as absent. Times `at` are Unix ms of the
 * caller's clock. Every method throws AppError `unavailable` while Postgres is unavailable. Methods with a lease throw
 * LeaseLostError when the lease has ended.
 */
export interface ExportStore {
  /**
   * The exports as jobs. Only one export of a site runs at a time: the oldest that is due. When a run of a schedule
   * fails, the next run takes over its range of receipt times, and restarts if it already exists. If the next run
   * already has its file, or the failed run had one before an erasure, the failed run is due again after an hour. Every
   * row is therefore in exactly one file.
   */
  leases: LeaseTable<ExportRecord>
  /** The schedules as jobs: a unit of work makes the next run. */
  schedules: LeaseTable<ExportSchedule>
  /**
   * Stores an export and makes it a job. Its status is `queued`, and it reads what was received until `at`. A schedule
   * makes its first run at its time, or at once if that has passed. If an export with this id is stored already,
   * returns that export. Throws AppError `not_found` when the site has been deleted, and `conflict` at the limits of a
   * site's schedules and of a key's unfinished exports of the site (`exportLimits`).
   */
  create(created: NewExport, at: number): Promise<ExportRecord>
  find(exportId: string, siteIds: SiteIds): Promise<ExportRecord | undefined>
  /**
   * Lists the exports of these types of one site, newest first, without the runs of schedules; `total` counts all of
   * them. Like `runs`, it throws AppError `invalid_field` for a page whose filters are too large in total.
   */
  list(siteId: string, types: readonly ExportType[], page: Page): Promise<{ exports: ExportRecord[]; total: number }>
  /**
   * Changes the present fields; undefined where `find` returns undefined. Another frequency counts from the next run,
   * and another next run becomes the anchor from which all runs are counted. Changes of a schedule have no effect on a
   * record without one.
   */
  update(exportId: string, siteIds: SiteIds, changes: ExportChanges): Promise<ExportRecord | undefined>
  /**
   * Removes an export, or a schedule with its runs; undefined where `find` returns undefined. A worker that has a lease
   * on it can record nothing more. The caller removes the files. Workers later remove those that the caller has left.
   */
  delete(exportId: string, siteIds: SiteIds): Promise<ExportFiles | undefined>
  /** Lists the runs of a schedule, newest first. */
  runs(scheduleId: string, page: Page): Promise<{ runs: ExportRecord[]; total: number }>
  /** The newest run whose file exists. */
  latestCompletedRun(scheduleId: string): Promise<ExportRecord | undefined>
  /** The recorded parts of a file that is being written, ascending. */
  parts(exportId: string): Promise<ExportPart[]>
  /** Records the place of the file of an export that has none, and the criteria of its cohort. */
  beginFile(
    lease: LeaseKey,
    file: { object: string; uploadId: string; cohortCriteria?: Criteria | undefined },
  ): Promise<void>
  /**
   * Forgets the file that was begun, and its parts, so that the file begins again, which is counted. The criteria of the
   * export's cohort stay those of the first attempt. The caller drops the upload.
   */
  dropFile(lease: LeaseKey): Promise<void>
  /** Records all parts that were written since the last call, or none. */
  recordParts(lease: LeaseKey, done: ExportProgress): Promise<void>
  complete(
    lease: LeaseKey,
    file: { rows: number; bytes: number; etag: string; expiresAt: number },
    at: number,
  ): Promise<void>
  /** Marks up to `max` expired exports as `expired`, and returns their blobs, which the caller removes. */
  expire(at: number, max: number): Promise<string[]>
  /**
   * Removes up to `max` records of exports that ended until `endedUntil` and no longer have a file. Returns their
   * number. A schedule does not end, and its latest run is kept, because the schedule shows its status.
   */
  removeOldRecords(endedUntil: number, max: number): Promise<number>
  /**
   * Withdraws the files of a site's exports that were requested until `at`. Completed exports become `expired`. Exports
   * that are being written begin again, and the worker that had the lease can record nothing more. Completed runs by
   * time of receipt are repeated, because no other run reads the same range; their expiry does not change. The caller
   * removes the files.
   */
  withdraw(siteId: string, at: number): Promise<ExportFiles>
  /** The files of exports that calls of `withdraw` after `since` have expired. */
  withdrawnFiles(siteId: string, since: number): Promise<ExportFiles>
  /**
   * Makes the next run of a schedule and advances the schedule to its next occurrence. A run by time of receipt begins
   * at the end of the previous run, or at the beginning of that run if it has failed. It ends at the earliest of:
   * `completeUntil`, `at`, and the acceptance of the site's oldest import whose rows may not all be stored. Every row is
   * therefore in exactly one run. Undefined when the schedule already had a run for this occurrence.
   */
  createRun(lease: LeaseKey, run: NewRun, at: number): Promise<ExportRecord | undefined>
}

/**
 * The error that users read for an export whose file an erasure removed. It is also the mark by which `listWithdrawn`
 * finds these rows, so it must never change: rows in the database have it.
 */
const withdrawnText = 'An erasure removed the file. Export it again.'

/** A withdrawn run is repeated after this time, so that several erasures in this time repeat it only once. */
const repeatedAfterMs = 600_000
/** A running export restarts after this time, for the same reason. */
const restartedAfter = '1 minute'

/** The exports of this Postgres. */
export function exportStore(postgres: Postgres): ExportStore {
  const leases: LeaseTable<ExportRecord> = {
    ...leaseTable(postgres, 'exports', toRecord),
    fail: (lease, error, at) =>
      postgres.transaction(async (transaction) => {
        const failing = await lockFailingRun(transaction, lease.id)
        await finish(transaction, lease, sql`status = 'failed', error = ${error}`, at)
        if (failing) await reassignRange(transaction, failing, at)
      }),
  }
  const schedules: LeaseTable<ExportSchedule> = {
    ...leaseTable(postgres, 'export_schedules', toSchedule),
    fail: (lease, error) =>
      postgres.run((db) =>
        updateHeld(db, 'export_schedules', lease, sql`status = 'failed', error = ${error}, due_at = NULL`),
      ),
  }
  return {
    leases,
    schedules,
    create: (created, at) =>
      postgres.transaction(async (transaction) => {
        const { exportId, scheduled } = created
        await lockSite(transaction, created.siteId)
        await lockExportCreation(transaction, created.siteId)
        const stored = await find(transaction, exportId, null)
        if (stored) return stored
        await requireExportAllowed(transaction, created)
        await insertExport(transaction, created, {
          created_at: new Date(at),
          // Events that were received in the millisecond of the request are in the file.
          ...(scheduled ? {} : { received_until: new Date(at + 1), due_at: new Date(at) }),
        })
        if (scheduled) await insertSchedule(transaction, exportId, scheduled)
        return findRecord(transaction, exportId)
      }),
    find: (exportId, siteIds) => postgres.run((db) => find(db, exportId, siteIds)),
    list: async (siteId, types, page) => {
      const listed = sql`site_id = ${siteId} AND schedule_id IS NULL AND type = ANY (${[...types]}::text[])`
      const { records, total } = await listRecords(postgres, listed, sql`created_at DESC, export_id DESC`, page)
      return { exports: records, total }
    },
    update: (exportId, siteIds, { name, scheduled }) =>
      postgres.transaction(async (transaction) => {
        const { numAffectedRows } = await sql`
          UPDATE exports SET name = coalesce(${name ?? null}, name)
          WHERE export_id = ${exportId} AND ${visibleSiteCondition(siteIds)}`.execute(transaction)
        if (numAffectedRows === 0n) return undefined
        if (scheduled) await updateSchedule(transaction, exportId, scheduled)
        return findRecord(transaction, exportId)
      }),
    delete: (exportId, siteIds) =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ object: string | null; upload_id: string | null }>`
          DELETE FROM exports WHERE (export_id = ${exportId} OR schedule_id = ${exportId}) AND ${visibleSiteCondition(siteIds)}
          RETURNING object, upload_id`.execute(db)
        return rows.length === 0 ? undefined : filesOf(rows)
      }),
    runs: async (scheduleId, page) => {
      const runs = sql`schedule_id = ${scheduleId}`
      const { records, total } = await listRecords(postgres, runs, sql`seq DESC`, page)
      return { runs: records, total }
    },
    latestCompletedRun: (scheduleId) =>
      postgres.run(async (db) => {
        const completed = sql`schedule_id = ${scheduleId} AND status = 'completed'`
        const { rows } = await selectRecords(completed, sql`ORDER BY seq DESC LIMIT 1`).execute(db)
        return rows[0] && toRecord(rows[0])
      }),
    parts: (exportId) =>
      postgres.run(async (db) => {
        const rows = await db
          .selectFrom('export_parts')
          .selectAll()
          .where('export_id', '=', exportId)
          .orderBy('n')
          .execute()
        return rows.map(({ n, etag, bytes }) => ({ n, etag, bytes: Number(bytes) }))
      }),
    beginFile: (lease, { object, uploadId, cohortCriteria }) =>
      postgres.run((db) => {
        const criteria = cohortCriteria === undefined ? null : JSON.stringify(cohortCriteria)
        const set = sql`
          object = ${object}, upload_id = ${uploadId}, after_key = NULL, rows = 0, progress = 0,
          cohort_criteria = ${criteria}::jsonb`
        return updateHeld(db, 'exports', lease, set)
      }),
    dropFile: (lease) =>
      postgres.transaction(async (transaction) => {
        await updateHeld(transaction, 'exports', lease, sql`${countRestart}, ${withoutFile}`)
        await transaction.deleteFrom('export_parts').where('export_id', '=', lease.id).execute()
      }),
    recordParts: (lease, { parts, afterKey, rows, progress }) =>
      postgres.transaction(async (transaction) => {
        const set = sql`after_key = ${JSON.stringify(afterKey)}, rows = ${rows}, progress = ${progress}, ${leaseProgress}`
        await updateHeld(transaction, 'exports', lease, set)
        await insertParts(transaction, lease.id, parts)
      }),
    complete: (lease, { rows, bytes, etag, expiresAt }, at) =>
      postgres.transaction(async (transaction) => {
        await finish(
          transaction,
          lease,
          sql`status = 'completed', rows = ${rows}, bytes = ${bytes}, progress = 100, etag = ${etag},
            expires_at = least(expires_at, ${new Date(expiresAt)}), upload_id = NULL, ${leaseProgress}`,
          at,
        )
        await queueCompletion(transaction, lease.id, at)
      }),
    expire: (at, max) =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ object: string | null }>`
          WITH due AS MATERIALIZED (
            SELECT export_id, object FROM exports WHERE status = 'completed' AND expires_at <= ${new Date(at)}
            ORDER BY expires_at LIMIT ${max} FOR UPDATE SKIP LOCKED
          )
          UPDATE exports SET status = 'expired' FROM due WHERE exports.export_id = due.export_id
          RETURNING due.object`.execute(db)
        return filesOf(rows).objects
      }),
    removeOldRecords: (endedUntil, max) =>
      postgres.run(async (db) => {
        const { rows } = await sql`
          WITH old AS MATERIALIZED (
            SELECT export_id FROM exports
            WHERE status IN ('expired', 'failed', 'cancelled') AND finished_at <= ${new Date(endedUntil)}
              AND (schedule_id IS NULL OR EXISTS (
                SELECT FROM exports AS later
                WHERE later.schedule_id = exports.schedule_id AND later.seq > exports.seq
              ))
            LIMIT ${max} FOR UPDATE SKIP LOCKED
          )
          DELETE FROM exports USING old WHERE exports.export_id = old.export_id RETURNING 1`.execute(db)
        return rows.length
      }),
    withdraw: (siteId, at) =>
      postgres.transaction(async (transaction) => {
        const made = sql`site_id = ${siteId} AND created_at <= ${new Date(at)}`
        // Running exports come before completed ones: this statement waits for one that is being completed, and the
        // next one finds it.
        const { rows: restarted } = await sql<{ export_id: string; object: string | null; upload_id: string | null }>`
          WITH running AS MATERIALIZED (
            SELECT export_id, object, upload_id FROM exports WHERE ${made} AND status = 'processing' FOR UPDATE
          )
          UPDATE exports SET ${fromFirstRow}, ${countRestart}, ${leaseEnd}, due_at = greatest(
            exports.due_at, ${new Date(at)}::timestamptz + CASE WHEN running.upload_id IS NULL THEN interval '0' ELSE ${restartedAfter}::interval END)
          FROM running WHERE exports.export_id = running.export_id
          RETURNING running.*`.execute(transaction)
        const { rows: repeated } = await sql<{ object: string | null }>`
          WITH run AS MATERIALIZED (
            SELECT export_id, object FROM exports
            WHERE ${made} AND status = 'completed' AND received_from IS NOT NULL AND expires_at > ${new Date(at + repeatedAfterMs)}
            FOR UPDATE
          )
          UPDATE exports SET status = 'queued', bytes = 0, etag = NULL, finished_at = NULL,
            ${fromFirstRow}, due_at = ${new Date(at + repeatedAfterMs)}, ${leaseEnd}
          FROM run WHERE exports.export_id = run.export_id
          RETURNING run.object`.execute(transaction)
        await sql`
          UPDATE exports SET status = 'expired', expires_at = ${new Date(at)}, error = ${withdrawnText}
          WHERE ${made} AND status = 'completed'`.execute(transaction)
        // Files that calls of the last day returned are returned again, because those callers may have failed before
        // they removed them. A repeated export has another file by then, and the worker's clean-up removes its former
        // file.
        const expired = await listWithdrawn(transaction, siteId, at - dayMs)
        const ids = restarted.map(({ export_id }) => export_id)
        await sql`DELETE FROM export_parts WHERE export_id = ANY (${ids}::text[])`.execute(transaction)
        return filesOf([...expired, ...repeated, ...restarted])
      }),
    withdrawnFiles: (siteId, since) => postgres.run(async (db) => filesOf(await listWithdrawn(db, siteId, since))),
    createRun: (lease, run, at) => postgres.transaction((transaction) => insertRun(transaction, lease, run, at)),
  }
}

async function find(db: Db, exportId: string, siteIds: SiteIds): Promise<ExportRecord | undefined> {
  const { rows } = await selectRecords(sql`export_id = ${exportId} AND ${visibleSiteCondition(siteIds)}`).execute(db)
  return rows[0] && toRecord(rows[0])
}

async function listWithdrawn(db: Db, siteId: string, since: number): Promise<{ object: string | null }[]> {
  const { rows } = await sql<{ object: string | null }>`
    SELECT object FROM exports
    WHERE site_id = ${siteId} AND status = 'expired' AND error = ${withdrawnText} AND expires_at > ${new Date(since)}
    ORDER BY seq`.execute(db)
  return rows
}

async function finish(transaction: Db, lease: LeaseKey, set: RawBuilder<unknown>, at: number): Promise<void> {
  await updateHeld(
    transaction,
    'exports',
    lease,
    sql`${set}, cohort_criteria = NULL, finished_at = ${new Date(at)}, due_at = NULL`,
  )
  await transaction.deleteFrom('export_parts').where('export_id', '=', lease.id).execute()
  await requeueNext(transaction, lease.id, at)
}

/**
 * Puts the site's next export behind the exports of other sites, as imports do (imports.ts). It skips an export that
 * another transaction has locked: waiting for it, while the ended export is locked, could deadlock with the deletion of
 * the site.
 */
async function requeueNext(db: Db, exportId: string, at: number): Promise<void> {
  await sql`
    UPDATE exports SET due_at = greatest(due_at, ${new Date(at)}::timestamptz)
    WHERE due_at IS NOT NULL AND export_id = (
      SELECT waiting.export_id FROM exports AS waiting JOIN exports AS ended USING (site_id)
      WHERE ended.export_id = ${exportId} AND waiting.export_id <> ${exportId} AND waiting.due_at <= ${new Date(at)}
      ORDER BY waiting.seq LIMIT 1 FOR UPDATE OF waiting SKIP LOCKED
    )`.execute(db)
}

/** One statement for any number of parts. */
async function insertParts(db: Db, exportId: string, parts: readonly ExportPart[]): Promise<void> {
  await sql`
    INSERT INTO export_parts (export_id, n, etag, bytes)
    SELECT ${exportId}::text, * FROM unnest(
      ${parts.map(({ n }) => n)}::int[],
      ${parts.map(({ etag }) => etag)}::text[],
      ${parts.map(({ bytes }) => bytes)}::bigint[]
    )`.execute(db)
}

/** The files that rows of exports name. */
export function filesOf(rows: readonly { object: string | null; upload_id?: string | null }[]): ExportFiles {
  const files: ExportFiles = { objects: [], uploads: [] }
  for (const { object, upload_id: uploadId = null } of rows) {
    if (object === null) continue
    files.objects.push(object)
    if (uploadId !== null) files.uploads.push({ name: object, uploadId })
  }
  return files
}
