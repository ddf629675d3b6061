import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { ErasureKind, ErasureStatus } from '@sluice/contracts/erasures'
import { dayMs } from '@sluice/contracts/time-units'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { lockSiteRules } from './alert-rules.ts'
import { deleteSiteEndpoints, removeDeliveries } from './endpoints.ts'
import { deletionTurns } from './erasure-turns.ts'
import { type ExportFiles, filesOf } from './exports.ts'
import { leaseTable, progress, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import type { Db, Tables } from './tables.ts'
import { toDate } from './time.ts'

/**
 * The next step of the worker: store the tombstone and count, delete, or verify that nothing is left. At `done`, only
 * the withdrawn files of exports are left to be removed.
 */
export type ErasureStep = 'tombstone' | 'delete' | 'verify' | 'done'

/** An erasure's record, which is also the worker's job. The value to erase is stored only as hashes. */
export interface ErasureRecord {
  erasureId: string
  siteId: string
  kind: ErasureKind
  /** Null when the kind has no value, and 400 days after the erasure was completed. */
  hashes: { key: string; rowKey: string } | null
  /** Unix ms, exclusive; null unless the kind is `before`. */
  before: number | null
  /** Unix ms: rows that were received at that time or earlier are erased. */
  requestedAt: number
  status: ErasureStatus
  step: ErasureStep
  /** Events that were stored after the tombstone; null until they are counted. */
  count: number | null
  /** Unix ms; null: the erasure is not completed. */
  completedAt: number | null
}

/** An erasure that is to be stored. */
export type NewErasure = Pick<ErasureRecord, 'erasureId' | 'siteId' | 'kind' | 'hashes' | 'before' | 'requestedAt'> & {
  keyId: string
}

/**
 * Erasures in Postgres. Times `at` are Unix ms of the caller's clock. Every method throws AppError `unavailable` while
 * Postgres is unavailable. Methods with a lease throw LeaseLostError when the lease has ended.
 */
export interface ErasureStore {
  /** The erasures as jobs. A job never fails permanently: a persistent failure is tried again every hour. */
  leases: LeaseTable<ErasureRecord>
  /** Stores an erasure and makes it a job. If an erasure with this id is stored already, returns that erasure. */
  create(erasure: NewErasure): Promise<ErasureRecord>
  /**
   * Stores the erasure of a deleted site (kind `site`), and removes the site's record, cohorts, endpoints, imports and
   * exports in the same transaction. Before it, removes the deliveries of the endpoints, imports that have ended, and
   * exports that have ended and have no file any more. Also returns the files of the other exports and of unfinished
   * imports, which the caller removes. If the site is not registered, returns undefined and does nothing. If an erasure
   * with this id is stored already, returns that erasure without files and removes nothing.
   *
   * The erasure is requested at the time that `now` (Unix ms) returns once nothing more can be created for the site, or
   * when the last import that it removes was accepted, if that is later: rows of a removed import are erased, too.
   */
  createForSite(
    erasure: Omit<NewErasure, 'requestedAt'>,
    now: () => number,
  ): Promise<{ erasure: ErasureRecord; files: ExportFiles } | undefined>
  find(siteId: string, erasureId: string): Promise<ErasureRecord | undefined>
  /** When the last deletion of the site was requested, in Unix ms; undefined if never. */
  siteDeletedAt(siteId: string): Promise<number | undefined>
  /** Up to `max` erasures at the step `delete`: the oldest one of each site, then the second one of each, and so on. */
  listDeletable(max: number): Promise<ErasureRecord[]>
  /** When the oldest uncompleted erasure was requested, in Unix ms. */
  oldestUnfinished(): Promise<number | undefined>
  /**
   * Records that the rows of these erasures are being deleted: the next step of those at the step `delete` is `verify`.
   */
  advanceDeleted(erasureIds: readonly string[]): Promise<void>
  /**
   * Records the next step, and the count if one is given. The count never decreases: when a step is repeated after a
   * restore, the restore has already erased rows.
   */
  advance(lease: LeaseKey, step: ErasureStep, count?: number): Promise<void>
  /**
   * Completes an erasure. Its hashes are kept until `forgetHashes`, because a restore repeats the erasure with them.
   */
  complete(lease: LeaseKey, at: number): Promise<void>
  /**
   * Makes unfinished erasures without a due time due at once. Workers of build 1 leave such erasures: for them, the step
   * `done` has nothing left to do, and the end of their lease removes the due time.
   */
  resumeStalled(): Promise<void>
  /**
   * Removes the hashes of erasures that were completed before `before` (Unix ms), in several statements. Any number of
   * processes may do so at once.
   */
  forgetHashes(before: number): Promise<void>
}

/** The erasures of this Postgres. */
export function erasureStore(postgres: Postgres): ErasureStore {
  return {
    leases: {
      ...leaseTable(postgres, 'erasures', toErasureRecord),
      fail: (lease, _error, at) =>
        postgres.run((db) => updateHeld(db, 'erasures', lease, sql`failed_at = ${new Date(at)}, failures = 0`)),
    },
    create: (erasure) =>
      postgres.run(async (db) => {
        const record = (await insert(db, erasure)) ?? (await findStored(db, erasure.erasureId))
        if (!record) throw new Error(`${erasure.erasureId} is stored and can't be found`)
        return record
      }),
    createForSite: async (erasure, now) => {
      const isStored = sql`EXISTS (SELECT FROM erasures WHERE erasure_id = ${erasure.erasureId})`
      const isRegistered = sql`EXISTS (SELECT FROM sites WHERE site_id = ${erasure.siteId})`
      const isDeleted = sql`site_id = ${erasure.siteId} AND ${isRegistered} AND NOT ${isStored}`
      await removeDeliveries(postgres, isDeleted)
      const startedAt = now()
      await removeEnded(postgres, isDeleted, startedAt)
      return postgres.transaction(async (transaction) => {
        const { siteId, erasureId } = erasure
        // Waits for another deletion of this site that has not committed yet: it may be an earlier attempt of this
        // request.
        await sql`SELECT FROM sites WHERE site_id = ${siteId} FOR UPDATE`.execute(transaction)
        const stored = await findStored(transaction, erasureId)
        if (stored) return { erasure: stored, files: filesOf([]) }
        const lockedAt = Math.max(startedAt, now())
        const { numDeletedRows } = await transaction
          .deleteFrom('sites')
          .where('site_id', '=', siteId)
          .executeTakeFirstOrThrow()
        if (numDeletedRows === 0n) return undefined
        await transaction.deleteFrom('cohorts').where('site_id', '=', siteId).execute()
        const exports = await transaction
          .deleteFrom('exports')
          .where('site_id', '=', siteId)
          .returning(['object', 'upload_id'])
          .execute()
        const files = filesOf(exports)
        files.objects.push(...(await unfinishedImportFiles(transaction, siteId)))
        const requestedAt = Math.max(lockedAt, await removeImports(transaction, siteId))
        await transaction.deleteFrom('alert_sites').where('site_id', '=', siteId).execute()
        await lockSiteRules(transaction, siteId)
        // Endpoints are locked last, because completing an export or import, and evaluating or changing a rule, also
        // locks endpoints last. The alert rules are deleted together with their endpoints.
        await deleteSiteEndpoints(transaction, siteId)
        const inserted = await insert(transaction, { ...erasure, requestedAt })
        if (!inserted) throw new Error(`${erasureId} was stored by another transaction`)
        return { erasure: inserted, files }
      })
    },
    find: (siteId, erasureId) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('erasures')
          .selectAll()
          .where('erasure_id', '=', erasureId)
          .where('site_id', '=', siteId)
          .executeTakeFirst()
        return row && toErasureRecord(row)
      }),
    siteDeletedAt: (siteId) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('erasures')
          .select('requested_at')
          .where('site_id', '=', siteId)
          .where('kind', '=', 'site')
          .orderBy('requested_at', 'desc')
          .limit(1)
          .executeTakeFirst()
        return row?.requested_at.getTime()
      }),
    listDeletable: (max) =>
      postgres.run(async (db) => {
        const { rows } = await sql<Selectable<Tables['erasures']>>`
          SELECT erasures.* FROM (${deletionTurns(max)}) AS turns JOIN erasures ON erasure_id = turns.id
          ORDER BY turn`.execute(db)
        return rows.map(toErasureRecord)
      }),
    oldestUnfinished: () =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('erasures')
          .select('requested_at')
          .where('status', '<>', 'completed')
          .orderBy('requested_at')
          .limit(1)
          .executeTakeFirst()
        return row?.requested_at.getTime()
      }),
    advanceDeleted: (erasureIds) =>
      postgres.run(async (db) => {
        await db
          .updateTable('erasures')
          .set({ step: 'verify' })
          .where('erasure_id', 'in', erasureIds)
          .where('step', '=', 'delete')
          .execute()
      }),
    advance: (lease, step, count) =>
      postgres.run((db) =>
        updateHeld(
          db,
          'erasures',
          lease,
          sql`step = ${step}, ${count === undefined ? sql`` : sql`count = greatest(coalesce(count, 0), ${count}),`} ${progress}`,
        ),
      ),
    complete: (lease, at) =>
      postgres.run((db) =>
        updateHeld(
          db,
          'erasures',
          lease,
          sql`status = 'completed', step = 'done', completed_at = ${new Date(at)}, due_at = NULL, ${progress}`,
        ),
      ),
    resumeStalled: () =>
      postgres.run(async (db) => {
        await db
          .updateTable('erasures')
          .set({ due_at: sql`now()` })
          .where('status', '<>', 'completed')
          .where('due_at', 'is', null)
          .execute()
      }),
    forgetHashes: (before) =>
      changeInChunks(
        postgres,
        sql`
          WITH old AS MATERIALIZED (
            SELECT erasure_id FROM erasures WHERE completed_at < ${new Date(before)} AND key_hash IS NOT NULL
            ORDER BY completed_at LIMIT ${changedAtOnceMax} FOR UPDATE SKIP LOCKED
          )
          UPDATE erasures SET key_hash = NULL, row_key = NULL FROM old WHERE erasures.erasure_id = old.erasure_id RETURNING 1`,
      ),
  }
}

async function findStored(db: Db, erasureId: string): Promise<ErasureRecord | undefined> {
  const row = await db.selectFrom('erasures').selectAll().where('erasure_id', '=', erasureId).executeTakeFirst()
  return row && toErasureRecord(row)
}

/**
 * The files of a site's unfinished imports. Imports are locked before their segments, and in the order in which ending
 * imports lock each other (imports.ts). Files that a worker writes afterwards, and error files of ended imports,
 * contain no values; they are removed a day later (services/worker/imports/import-files.ts).
 */
async function unfinishedImportFiles(db: Db, siteId: string): Promise<string[]> {
  const imports = await db
    .selectFrom('imports')
    .select('import_id')
    .where('site_id', '=', siteId)
    .where('status', 'in', ['queued', 'processing'])
    .orderBy('seq')
    .forUpdate()
    .execute()
  if (imports.length === 0) return []
  const segments = await db
    .selectFrom('import_segments')
    .select(['object', 'errors_object'])
    .where('import_id', '=', sql<string>`ANY (${imports.map(({ import_id: importId }) => importId)}::text[])`)
    .orderBy('import_id')
    .orderBy('n')
    .execute()
  return segments.flatMap(({ object, errors_object: errors }) => (errors === null ? [object] : [object, errors]))
}

/** A statement that changes more erasures, or removes more imports or exports with their segments, could exceed its time-out. */
export const changedAtOnceMax = 1_000

/**
 * Removes the exports that have ended and can't have a file any more, and the imports that have ended and were accepted
 * until `startedAt` (Unix ms), among those that meet `condition`, in several transactions.
 */
async function removeEnded(postgres: Postgres, condition: RawBuilder<unknown>, startedAt: number): Promise<void> {
  // Erasures still read the names of files that were withdrawn within a day (exports.ts) from these records, and this
  // deletion may fail. Older files are removed, at the latest, as files without a record
  // (services/worker/exports/export-files.ts).
  const hasNoFile = sql`(object IS NULL OR greatest(finished_at, expires_at) <= ${new Date(startedAt - dayMs)})`
  await changeInChunks(
    postgres,
    sql`
      WITH ended AS MATERIALIZED (
        SELECT export_id FROM exports
        WHERE ${condition} AND status IN ('expired', 'failed', 'cancelled') AND ${hasNoFile}
        LIMIT ${changedAtOnceMax} FOR UPDATE SKIP LOCKED
      )
      DELETE FROM exports USING ended WHERE exports.export_id = ended.export_id RETURNING 1`,
  )
  await changeInChunks(
    postgres,
    sql`
      WITH ended AS MATERIALIZED (
        SELECT import_id FROM imports
        WHERE ${condition} AND status IN ('completed', 'failed', 'cancelled') AND accepted_at <= ${new Date(startedAt)}
        LIMIT ${changedAtOnceMax} FOR UPDATE SKIP LOCKED
      )
      DELETE FROM imports USING ended WHERE imports.import_id = ended.import_id RETURNING 1`,
  )
}

/** Repeats a statement that returns a row for each one it changes, until it changes less than `changedAtOnceMax`. */
async function changeInChunks(postgres: Postgres, statement: RawBuilder<unknown>): Promise<void> {
  for (;;) {
    const { rows } = await postgres.run((db) => statement.execute(db))
    if (rows.length < changedAtOnceMax) return
  }
}

/** Removes the imports of a site. Returns when the last one of them was accepted, in Unix ms; 0 without imports. */
async function removeImports(db: Db, siteId: string): Promise<number> {
  const { rows } = await sql<{ last: Date | null }>`
    WITH removed AS (DELETE FROM imports WHERE site_id = ${siteId} RETURNING accepted_at)
    SELECT max(accepted_at) AS last FROM removed`.execute(db)
  return rows[0]?.last?.getTime() ?? 0
}

/**
 * Stores nothing and returns undefined if an erasure with this id is stored. Waits for a transaction that is storing
 * one.
 */
async function insert(
  db: Db,
  { hashes, before, requestedAt, ...erasure }: NewErasure,
): Promise<ErasureRecord | undefined> {
  const row = await db
    .insertInto('erasures')
    .values({
      erasure_id: erasure.erasureId,
      site_id: erasure.siteId,
      kind: erasure.kind,
      key_hash: hashes?.key ?? null,
      row_key: hashes?.rowKey ?? null,
      before: toDate(before),
      status: 'queued',
      step: 'tombstone',
      key_id: erasure.keyId,
      requested_at: new Date(requestedAt),
      due_at: new Date(requestedAt),
    })
    .onConflict((conflict) => conflict.column('erasure_id').doNothing())
    .returningAll()
    .executeTakeFirst()
  return row && toErasureRecord(row)
}

/** Converts a row of `erasures`. */
export function toErasureRecord(row: Selectable<Tables['erasures']>): ErasureRecord {
  return {
    erasureId: row.erasure_id,
    siteId: row.site_id,
    kind: row.kind,
    hashes: row.key_hash === null || row.row_key === null ? null : { key: row.key_hash, rowKey: row.row_key },
    before: row.before?.getTime() ?? null,
    requestedAt: row.requested_at.getTime(),
    status: row.status,
    step: row.step,
    count: row.count === null ? null : Number(row.count),
    completedAt: row.completed_at?.getTime() ?? null,
  }
}
