import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { ImportType } from '@sluice/contracts/imports'
import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { unavailable } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import { encodeBody, queueForWebhooks } from './deliveries.ts'
import type { ImportRecord } from './import-record.ts'
import { toImportResource } from './import-resource.ts'
import { leaseEnd, leaseTable, progress, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import { selectPage } from './page.ts'
import { lockReceiptTimes } from './receipt-time-lock.ts'
import { lockSite } from './sites.ts'
import type { Db, EndOffsets, Tables } from './tables.ts'
import { type UploadLeaseStore, uploadLeaseStore } from './uploads.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** An import whose file has been received. */
export type NewImport = Pick<
  ImportRecord,
  'importId' | 'siteId' | 'environment' | 'type' | 'keyId' | 'sha256' | 'createdAt'
> & { segments: readonly NewSegment[] }

/** A part of the file, which is one unit of work. */
export interface NewSegment {
  /** Number of the segment, from 0 without gaps. */
  n: number
  /** The blob of the records. */
  object: string
  /** The number of the segment's first record within the file, from 1. */
  firstRecord: number
  /** The line of the file where the first record begins, from 1. */
  firstLine: number
  records: number
}

/** The progress of a segment. */
export interface SegmentProgress {
  /** Records that were processed, including failed ones. */
  processed: number
  failed: number
  /** The blob of the errors; null: none. */
  errorsObject: string | null
  /** End offsets of the log after the rows were published; null when nothing was published. */
  publishedEndOffsets: EndOffsets | null
}

/** A segment with its progress. */
export interface ImportSegment extends NewSegment, SegmentProgress {}

/**
 * Imports in Postgres. Imports of sites that are not in `siteIds` are treated as absent. Times `at` are Unix ms of the
 * caller's clock. Every method throws AppError `unavailable` while Postgres is unavailable. Methods with a lease throw
 * LeaseLostError when the lease has ended.
 */
export interface ImportStore {
  /** The imports as jobs. Workers take only the oldest unfinished import of a site. */
  leases: LeaseTable<ImportRecord>
  /** The uploads that are not imports yet. */
  uploads: UploadLeaseStore
  /**
   * Stores an import with its segments when its upload is complete, at `at`, and makes it a job with the status
   * `queued`. The same transaction ends its upload. Throws AppError `unavailable` when the upload has already ended,
   * and `not_found` when the site has been deleted.
   */
  create(created: NewImport, at: number): Promise<ImportRecord>
  find(importId: string, siteIds: SiteIds): Promise<ImportRecord | undefined>
  /** Lists the imports of these types of one site, newest first; `total` counts all of them. */
  list(siteId: string, types: readonly ImportType[], page: Page): Promise<{ imports: ImportRecord[]; total: number }>
  /**
   * Cancels an unfinished import; a finished one is not changed. Returns the record; undefined where `find` returns
   * undefined. A worker that has a lease on it can record nothing more.
   */
  cancel(importId: string, siteIds: SiteIds, at: number): Promise<ImportRecord | undefined>
  /** The segments in the order of the file. */
  segments(importId: string): Promise<ImportSegment[]>
  /** The first segment that has records left to process; undefined when there is none. */
  nextSegment(importId: string): Promise<ImportSegment | undefined>
  /** Stores the progress of segment `n`, and the counts of the import, which are the sums over all segments. */
  recordSegment(lease: LeaseKey, n: number, done: SegmentProgress): Promise<void>
  complete(lease: LeaseKey, at: number): Promise<void>
  /** New imports have a `seq` above `last` from now on. */
  continueAfter(last: number): Promise<void>
}

/** The imports of this Postgres. */
export function importStore(postgres: Postgres): ImportStore {
  const leases: LeaseTable<ImportRecord> = {
    ...leaseTable(postgres, 'imports', toRecord),
    fail: (lease, error, at) =>
      postgres.transaction((transaction) => finish(transaction, lease, sql`status = 'failed', error = ${error}`, at)),
  }
  return {
    leases,
    uploads: uploadLeaseStore(postgres),
    continueAfter: async (last) => {
      await postgres.run((db) =>
        sql`
          SELECT setval(sequence, ${last})
          FROM (SELECT pg_get_serial_sequence('imports', 'seq')::regclass AS sequence) AS own
          WHERE coalesce(pg_sequence_last_value(sequence), 0) < ${last}`.execute(db),
      )
    },
    create: (created, at) =>
      postgres.transaction(async (transaction) => {
        const { importId, segments } = created
        await lockSite(transaction, created.siteId)
        const upload = await transaction
          .deleteFrom('uploads')
          .where('import_id', '=', importId)
          .executeTakeFirstOrThrow()
        if (upload.numDeletedRows !== 1n) throw unavailable(`The upload of ${importId} has lapsed`)
        const row = await transaction
          .insertInto('imports')
          .values({
            import_id: importId,
            site_id: created.siteId,
            environment: created.environment,
            type: created.type,
            status: 'queued',
            sha256: created.sha256,
            total_records: String(sum(segments.map(({ records }) => records))),
            key_id: created.keyId,
            created_at: new Date(created.createdAt),
            accepted_at: new Date(await acceptanceTime(transaction, created.siteId, at)),
            due_at: new Date(at),
          })
          .returningAll()
          .executeTakeFirstOrThrow()
        await insertSegments(transaction, importId, segments)
        return toRecord(row)
      }),
    find: (importId, siteIds) =>
      postgres.run(async (db) => {
        const row = await selectVisible(db, importId, siteIds).executeTakeFirst()
        return row && toRecord(row)
      }),
    list: (siteId, types, page) =>
      postgres.run(async (db) => {
        const newestFirst = db
          .selectFrom('imports')
          .selectAll()
          .where('site_id', '=', siteId)
          .where('type', 'in', types)
          .orderBy('created_at', 'desc')
          .orderBy('import_id', 'desc')
        const { rows, total } = await selectPage(newestFirst, page)
        return { imports: rows.map(toRecord), total }
      }),
    cancel: (importId, siteIds, at) =>
      postgres.transaction(async (transaction) => {
        const { numAffectedRows } = await sql`
          UPDATE imports SET status = 'cancelled', finished_at = ${new Date(at)}, due_at = NULL, ${leaseEnd}
          WHERE import_id = ${importId} AND ${visibleSiteCondition(siteIds)}
            AND status IN ('queued', 'processing')`.execute(transaction)
        if (numAffectedRows === 1n) await requeueNext(transaction, importId, at)
        const row = await selectVisible(transaction, importId, siteIds).executeTakeFirst()
        return row && toRecord(row)
      }),
    segments: (importId) =>
      postgres.run(async (db) => {
        const rows = await db
          .selectFrom('import_segments')
          .selectAll()
          .where('import_id', '=', importId)
          .orderBy('n')
          .execute()
        return rows.map(toSegment)
      }),
    nextSegment: (importId) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('import_segments')
          .selectAll()
          .where('import_id', '=', importId)
          .whereRef('processed', '<', 'records')
          .orderBy('n')
          .limit(1)
          .executeTakeFirst()
        return row && toSegment(row)
      }),
    recordSegment: (lease, n, { processed, failed, errorsObject, publishedEndOffsets: ends }) =>
      postgres.transaction(async (transaction) => {
        // The import before its segments. The deletion of a site locks them in the same order.
        await updateHeld(transaction, 'imports', lease, progress)
        await transaction
          .updateTable('import_segments')
          .set({ processed, failed, errors_object: errorsObject, positions: ends && JSON.stringify(ends) })
          .where('import_id', '=', lease.id)
          .where('n', '=', n)
          .executeTakeFirst()
        const sums = sql`
          (SELECT sum(processed), sum(failed) FROM import_segments WHERE import_id = ${lease.id})`
        await updateHeld(transaction, 'imports', lease, sql`(processed_records, failed_records) = ${sums}`)
      }),
    complete: (lease, at) =>
      postgres.transaction(async (transaction) => {
        await finish(transaction, lease, sql`status = 'completed', ${progress}`, at)
        await queueCompletion(transaction, lease.id, at)
      }),
  }
}

/**
 * Returns `at` or a later time. The time must not be before the end of a run of an export's schedule, because that run
 * has treated all earlier times as complete (exports.ts, `createRun`).
 */
async function acceptanceTime(transaction: Db, siteId: string, at: number): Promise<number> {
  await lockReceiptTimes(transaction, siteId)
  const { rows } = await sql<{ cutoff: Date | null }>`
    SELECT max(last_cutoff) AS cutoff FROM export_schedules JOIN exports ON export_id = export_schedules.schedule_id
    WHERE site_id = ${siteId}`.execute(transaction)
  return Math.max(at, rows[0]?.cutoff?.getTime() ?? at)
}

async function finish(transaction: Db, lease: LeaseKey, set: RawBuilder<unknown>, at: number): Promise<void> {
  const finished = sql`${set}, finished_at = ${new Date(at)}, due_at = NULL`
  await updateHeld(transaction, 'imports', lease, finished)
  await requeueNext(transaction, lease.id, at)
}

/** Queues `import.completed` in the transaction that completes the import, so that both are stored or neither. */
async function queueCompletion(transaction: Db, importId: string, now: number): Promise<void> {
  const row = await selectVisible(transaction, importId, null).executeTakeFirstOrThrow()
  const record = toRecord(row)
  const { siteId, environment } = record
  const kind = 'import.completed'
  await queueForWebhooks(transaction, {
    siteId,
    environment,
    kind,
    source: `import:${importId}`,
    body: encodeBody({ event_type: kind, timestamp: now, site_id: siteId, data: toImportResource(record) }),
    now,
  })
}

/**
 * Puts the site's next import behind the jobs of the other sites. Its due time is otherwise the time of its upload, and
 * a site with thousands of files would be first again after each file. Rows are locked in the order of `seq`, so that
 * transactions do not deadlock.
 */
async function requeueNext(db: Db, importId: string, at: number): Promise<void> {
  await sql`
    UPDATE imports SET due_at = greatest(due_at, ${new Date(at)}::timestamptz)
    WHERE due_at IS NOT NULL AND import_id = (
      SELECT later.import_id FROM imports AS later JOIN imports AS ended USING (site_id)
      WHERE ended.import_id = ${importId} AND later.seq > ended.seq AND later.status IN ('queued', 'processing')
      ORDER BY later.seq LIMIT 1
    )`.execute(db)
}

/** One statement for any number of segments. */
async function insertSegments(db: Db, importId: string, segments: readonly NewSegment[]): Promise<void> {
  await sql`
    INSERT INTO import_segments (import_id, n, object, first_record, first_line, records)
    SELECT ${importId}::text, * FROM unnest(
      ${segments.map(({ n }) => n)}::int[],
      ${segments.map(({ object }) => object)}::text[],
      ${segments.map(({ firstRecord }) => firstRecord)}::bigint[],
      ${segments.map(({ firstLine }) => firstLine)}::bigint[],
      ${segments.map(({ records }) => records)}::int[]
    )`.execute(db)
}

function selectVisible(db: Db, importId: string, siteIds: SiteIds) {
  return db.selectFrom('imports').selectAll().where('import_id', '=', importId).where(visibleSiteCondition(siteIds))
}

function toRecord(row: Selectable<Tables['imports']>): ImportRecord {
  return {
    importId: row.import_id,
    seq: Number(row.seq),
    siteId: row.site_id,
    environment: row.environment,
    type: row.type,
    status: row.status,
    sha256: row.sha256,
    totalRecords: Number(row.total_records),
    processedRecords: Number(row.processed_records),
    failedRecords: Number(row.failed_records),
    error: row.error,
    keyId: row.key_id,
    createdAt: row.created_at.getTime(),
    acceptedAt: row.accepted_at.getTime(),
    finishedAt: row.finished_at?.getTime() ?? null,
  }
}

function toSegment(row: Selectable<Tables['import_segments']>): ImportSegment {
  return {
    n: row.n,
    object: row.object,
    firstRecord: Number(row.first_record),
    firstLine: Number(row.first_line),
    records: row.records,
    processed: row.processed,
    failed: row.failed,
    errorsObject: row.errors_object,
    publishedEndOffsets: row.positions,
  }
}
