import { sql } from 'kysely'
import { leaseEnd } from './leases.ts'
import type { Postgres } from './open.ts'

/** The error that users read for an import whose file is missing after a restore. */
const lostText =
  'A restore lost the uploaded file. Import it again: events that are stored already are not stored twice.'

/**
 * Fails the imports that need a missing file, at `at` (Unix ms), and returns their ids. A file may be missing because
 * the dump of Postgres is newer than the copies of the files, or because an import that ended while the files were
 * copied has removed its own. `files` are the names of all blobs. Called after `reconcile`, which restarts some
 * imports. May be repeated.
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
