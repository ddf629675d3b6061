import { sql } from 'kysely'
import type { Postgres } from './open.ts'

/**
 * The watermark of each partition of a log: the time up to which all accepted events can be read. Every method throws
 * AppError 503 while Postgres is away.
 */
export interface WatermarkStore {
  /**
   * Stores the watermarks of all partitions of a log, by partition, in Unix ms. Undefined: the watermark of the partition
   * is not known; the partition is stored all the same. A stored watermark never moves back.
   */
  advance(logId: string, completeUntil: readonly (number | undefined)[]): Promise<void>
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
          FROM unnest(${watermarks}::timestamptz[]) WITH ORDINALITY AS told (until, place) ORDER BY place
          ON CONFLICT (log_id, partition) DO UPDATE SET complete_until = excluded.complete_until
          WHERE excluded.complete_until > coalesce(known.complete_until, '-infinity')`.execute(db)
      }),
    completeUntil: () =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ earliest: Date | null }>`
          SELECT min(coalesce(complete_until, 'epoch')) AS earliest FROM log_watermarks`.execute(db)
        return rows[0]?.earliest?.getTime() ?? 0
      }),
  }
}
