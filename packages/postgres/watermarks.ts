import { sql } from 'kysely'
import type { Lane } from '@sluice/contracts/lanes'
import type { Postgres } from './open.ts'

/** The time until which all accepted events can be read, in Unix ms; 0 while it is unknown. */
export interface CompleteTimes {
  /** For the events of the live log: the earliest watermark of its partitions, over all logs. */
  live: number
  /** For all events: the earliest watermark of all partitions of both logs. */
  all: number
}

/**
 * The watermark of each partition of a log: the time until which all accepted events can be read. Every method throws
 * AppError `unavailable` while Postgres is unavailable.
 */
export interface WatermarkStore {
  /**
   * Stores the watermarks of a log's lane, by partition, in Unix ms, and adds partitions that have none yet. Undefined
   * means that the caller does not know the partition's watermark; an existing row is then not changed. A stored
   * watermark never decreases, unless it is later than Postgres's own clock, which has then been set back.
   */
  advance(logId: string, completeUntil: readonly (number | undefined)[], lane?: Lane): Promise<void>
  /** True once a partition of the live log is stored here. Then `readCompleteTimes` includes the log. */
  isRegistered(logId: string): Promise<boolean>
  /**
   * Reads the watermarks of all logs: the times until which all accepted events can be read. A watermark that is later
   * than Postgres's clock counts as unknown: the clock has been set back, and events that arrive now are not all stored.
   */
  readCompleteTimes(): Promise<CompleteTimes>
  /**
   * True once a writer has reported on the backfill log of this log. Then a writer reads the backfill log, and
   * `readCompleteTimes` includes it.
   */
  isBackfillRead(logId: string): Promise<boolean>
  /**
   * Removes the watermarks of all logs but this one. Returns the ids of the live logs among them, in order. For a
   * Postgres whose events go through one log only.
   */
  keepOnly(logId: string): Promise<string[]>
}

/** The watermarks of this Postgres. */
export function watermarkStore(postgres: Postgres): WatermarkStore {
  return {
    advance: (logId, completeUntil, lane = 'live') =>
      postgres.run(async (db) => {
        const watermarks = completeUntil.map((until) => (until === undefined ? null : new Date(until)))
        // In order, because writers that lock the same rows in different orders can deadlock.
        await sql`
          INSERT INTO log_watermarks AS known (log_id, partition, complete_until, lane)
          SELECT ${idOf(logId, lane)}, place - 1, until, ${lane}
          FROM unnest(${watermarks}::timestamptz[]) WITH ORDINALITY AS reported (until, place)
          WHERE until IS NOT NULL OR NOT EXISTS (
            SELECT FROM log_watermarks WHERE log_id = ${idOf(logId, lane)} AND partition = place - 1
          )
          ORDER BY place
          ON CONFLICT (log_id, partition) DO UPDATE SET complete_until = excluded.complete_until
          WHERE excluded.complete_until > coalesce(known.complete_until, '-infinity')
            OR known.complete_until > statement_timestamp()`.execute(db)
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
    readCompleteTimes: () =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ live: Date | null; all: Date | null }>`
          SELECT min(until) FILTER (WHERE lane = 'live') AS live, min(until) AS all
          FROM (
            SELECT lane, CASE WHEN complete_until <= statement_timestamp() THEN complete_until ELSE 'epoch' END AS until
            FROM log_watermarks
          ) AS each_partition`.execute(db)
        return { live: rows[0]?.live?.getTime() ?? 0, all: rows[0]?.all?.getTime() ?? 0 }
      }),
    isBackfillRead: (logId) =>
      postgres.run(async (db) => {
        const { rows } = await sql`
          SELECT 1 FROM log_watermarks WHERE log_id = ${idOf(logId, 'backfill')} AND lane = 'backfill' LIMIT 1`.execute(
          db,
        )
        return rows.length > 0
      }),
    keepOnly: (logId) =>
      postgres.run(async (db) => {
        const removed = await db
          .deleteFrom('log_watermarks')
          .where('log_id', 'not in', [idOf(logId, 'live'), idOf(logId, 'backfill')])
          .returning(['log_id', 'lane'])
          .execute()
        return [...new Set(removed.filter(({ lane }) => lane === 'live').map((row) => row.log_id))].sort()
      }),
  }
}

/** Each lane has its own id, because in builds that do not know lanes, the key is (log_id, partition). */
function idOf(logId: string, lane: Lane): string {
  return lane === 'live' ? logId : `${logId}.${lane}`
}
