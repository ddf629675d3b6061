import { sql } from 'kysely'
import { withoutFile } from './export-records.ts'
import { leaseEnd } from './leases.ts'
import type { Postgres } from './open.ts'

/** The completed exports whose files are missing after a restore, by what happens to them. */
export interface LostExportFiles {
  /** Runs of schedules that are repeated. */
  repeatedRuns: string[]
  /** Exports that have expired. */
  expiredExports: string[]
}

/** The error that users read for an export whose file is missing after a restore. */
const lostText = 'A restore lost the file. Export it again.'

/**
 * Adapts the completed exports to the existing files, in one transaction at `at` (Unix ms). A run by time of receipt
 * whose file is missing is repeated, because no other run reads the same range; its expiry does not change. Other
 * exports become `expired`. `files` are the names of all blobs. May be repeated.
 */
export async function reconcileExports(
  postgres: Postgres,
  files: readonly string[],
  at: number,
): Promise<LostExportFiles> {
  const now = new Date(at)
  const isLost = sql`status = 'completed' AND object <> ALL (${[...files]}::text[])`
  return postgres.transaction(async (transaction) => {
    const { rows: repeated } = await sql<{ export_id: string }>`
      UPDATE exports SET
        status = 'queued', ${withoutFile}, bytes = 0, etag = NULL, finished_at = NULL, due_at = ${now}, ${leaseEnd}
      WHERE ${isLost} AND received_from IS NOT NULL AND expires_at > ${now}
      RETURNING export_id`.execute(transaction)
    const { rows: expired } = await sql<{ export_id: string }>`
      UPDATE exports SET status = 'expired', expires_at = least(expires_at, ${now}), error = ${lostText}
      WHERE ${isLost} RETURNING export_id`.execute(transaction)
    return { repeatedRuns: idsOf(repeated), expiredExports: idsOf(expired) }
  })
}

function idsOf(rows: readonly { export_id: string }[]): string[] {
  return rows.map(({ export_id }) => export_id).sort()
}
