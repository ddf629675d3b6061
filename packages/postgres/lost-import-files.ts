import { sql } from 'kysely'
import { leaseEnd } from './leases.ts'
import type { Postgres } from './open.ts'

/** Error, for users, of an import whose file a restore did not bring back. */
const lostText =
  'A restore lost the uploaded file. Import it again: events that are stored already are not stored twice.'

/**
 * Fails the imports that need a file which is not there, at `at` (Unix ms), and returns their ids: the dump of Postgres
 * may be younger than the copies of the files, and an import that ended while these were made has removed its own.
 * `files`: the names of all blobs. Called after `reconcile`, which has some imports begin anew. May be repeated.
 */
export async function failImportsWithoutFiles(
  postgres: Postgres,
  files: readonly string[],
  at: number,
): Promise<string[]> {
  return postgres.run(async (db) => {
    const { rows } = await sql<{ import_id: string }>`
      UPDATE imports SET
        status = 'failed', error = ${lostText}, finished_at = ${new Date(at)}, due_at = NULL, ${leaseEnd}
      WHERE status IN ('queued', 'processing') AND import_id IN (
        SELECT import_id FROM import_segments
        WHERE processed < records AND NOT EXISTS (SELECT FROM unnest(${[...files]}::text[]) AS file WHERE file = object)
      )
      RETURNING import_id`.execute(db)
    return rows.map(({ import_id }) => import_id).sort()
  })
}
