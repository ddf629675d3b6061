import { sql } from 'kysely'
import type { Postgres } from './open.ts'

/**
 * The watermark of each partition of a log: the time up to which all accepted events can be read. Every method throws
 * AppError 503 while Postgres is away.
 */
export interface WatermarkStore {
  /**
   * Stores the watermarks of a log, by partition, in Unix ms, and adds the partitions that have none yet. Undefined: the
   * caller does not know the watermark of the partition, whose row is then left alone if there is one. A stored watermark
   * never moves back.
   */
  advance(logId: string, completeUntil: readonly (number | undefined)[]): Promise<void>
  /** True once the log has a partition here, so that `completeUntil` includes it. */
  isRegistered(logId: string): Promise<boolean>
  /** Returns the earliest watermark (Unix ms) of all partitions of all logs; 0 while there is none or one is not known. */
  completeUntil(): Promise<number>
}

export function watermarkStore(postgres: Postgres): WatermarkStore {
  return {
    advance: (logId, completeUntil) =>
      postgres.run(async (db) => {
        const watermarks = completeUntil.map((until) => (until === undefined ? null : new Date(until)))
        // In order, because two writers that lock the same rows in different orders would deadlock.
        await sql`
          INSERT INTO log_watermarks AS known (log_id, partition, complete_until)
          SELECT ${logId}, place - 1, until
          FROM unnest(${watermarks}::timestamptz[]) WITH ORDINALITY AS reported (until, place)
          WHERE until IS NOT NULL OR NOT EXISTS (
            SELECT FROM log_watermarks WHERE log_id = ${logId} AND partition = place - 1
          )
          ORDER BY place
          ON CONFLICT (log_id, partition) DO UPDATE SET complete_until = excluded.complete_until
          WHERE excluded.complete_until > coalesce(known.complete_until, '-infinity')`.execute(db)
      }),
    isRegistered: (logId) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('log_watermarks')
          .select('log_id')
          .where('log_id', '=', logId)
          .limit(1)
          .execute()
        return row.length > 0
      }),
    completeUntil: () =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ earliest: Date | null }>`
          SELECT min(coalesce(complete_until, 'epoch')) AS earliest FROM log_watermarks`.execute(db)
        return rows[0]?.earliest?.getTime() ?? 0
      }),
  }
}
