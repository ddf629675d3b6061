import { sql } from 'kysely'
import type { Postgres } from './open.ts'

/**
 * Until when the events of each partition of the log can be read. Every method throws SluiceError 503 while Postgres is
 * away.
 */
export interface WatermarkStore {
  /**
   * Stores by partition of a log until when (Unix ms) every accepted event can be read; undefined: the caller can't tell.
   * Names all partitions, so that one that nobody can tell of is known to be there. Never moves one back.
   */
  advance(logId: string, completeUntil: readonly (number | undefined)[]): Promise<void>
  /** The earliest of all partitions of all logs; 0 while there are none, or one that nobody could tell of. */
  completeUntil(): Promise<number>
}

export function watermarkStore(postgres: Postgres): WatermarkStore {
  return {
    advance: (logId, completeUntil) =>
      postgres.run(async (db) => {
        const told = completeUntil.map((until) => (until === undefined ? null : new Date(until)))
        // In order: two writers that lock the same rows in different orders would wait for each other for ever.
        await sql`
          INSERT INTO log_watermarks AS known (log_id, partition, complete_until)
          SELECT ${logId}, place - 1, until
          FROM unnest(${told}::timestamptz[]) WITH ORDINALITY AS told (until, place) ORDER BY place
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
