import { importLimits } from '@sluice/contracts/imports'
import { conflict } from '@sluice/runtime/errors'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { countRows } from './count-rows.ts'
import type { Postgres } from './open.ts'

const { concurrentUploadsMax, waitingPerKeyMax } = importLimits

/** An upload that is not renewed for this long no longer counts: its process has died. */
export const uploadLeaseMs = 60_000

/**
 * The running uploads of files, in all processes. Times `at` are Unix ms of the caller's clock. Every method throws
 * AppError `unavailable` while Postgres is unavailable.
 */
export interface UploadLeaseStore {
  /**
   * Registers a new upload. Registers nothing and returns false if the key already has the maximum number of running
   * uploads (`importLimits`). Throws AppError `conflict` if it has the maximum number of imports that have not ended.
   */
  begin(upload: { importId: string; keyId: string }, at: number): Promise<boolean>
  /** Renews the registration of an upload for another minute. */
  renew(importId: string, at: number): Promise<void>
  /**
   * Ends an upload. Returns false if it has already ended: by `ImportStore.create`, or by another call of `end`. After
   * `end`, the upload can no longer become an import, not even by a statement that Postgres has yet to execute.
   */
  end(importId: string): Promise<boolean>
}

/** The uploads that are registered in this Postgres. */
export function uploadLeaseStore(postgres: Postgres): UploadLeaseStore {
  return {
    begin: ({ importId, keyId }, at) =>
      postgres.transaction(async (transaction) => {
        // No other upload of the key begins until this transaction ends.
        await takeAdvisoryLock(transaction, 'upload', keyId)
        await transaction
          .deleteFrom('uploads')
          .where('key_id', '=', keyId)
          .where('expires_at', '<=', new Date(at))
          .execute()
        const running = await countRows(transaction.selectFrom('uploads').where('key_id', '=', keyId))
        if (running >= concurrentUploadsMax) return false
        // Counted after the uploads, so that an upload which becomes an import meanwhile is not missed.
        const waiting = await countRows(
          transaction.selectFrom('imports').where('key_id', '=', keyId).where('due_at', 'is not', null),
        )
        if (running + waiting >= waitingPerKeyMax) {
          throw conflict(`The key has ${waitingPerKeyMax} imports that have not ended: wait, or cancel some`)
        }
        await transaction
          .insertInto('uploads')
          .values({ import_id: importId, key_id: keyId, expires_at: new Date(at + uploadLeaseMs) })
          .execute()
        return true
      }),
    renew: (importId, at) =>
      postgres.run(async (db) => {
        await db
          .updateTable('uploads')
          .set({ expires_at: new Date(at + uploadLeaseMs) })
          .where('import_id', '=', importId)
          .execute()
      }),
    end: (importId) =>
      postgres.run(async (db) => {
        const { numDeletedRows } = await db
          .deleteFrom('uploads')
          .where('import_id', '=', importId)
          .executeTakeFirstOrThrow()
        return numDeletedRows === 1n
      }),
  }
}
