import { sql } from 'kysely'
import type { Postgres } from './open.ts'

/**
 * How far the dead letters of a log were replayed. Kafka deletes the offsets of a group without members after a week,
 * but these are permanent. Every method throws AppError `unavailable` while Postgres is unavailable.
 */
export interface ReplayPositionStore {
  /** The offsets after the last replayed letters, by partition. Partitions without one are absent. */
  read(logId: string): Promise<ReadonlyMap<number, bigint>>
  /** Stores the offset after the last replayed letter of a partition. The stored offset never decreases. */
  advance(logId: string, partition: number, next: bigint): Promise<void>
  /** Deletes the positions of a log whose topic was created again. */
  forget(logId: string): Promise<void>
}

/** The positions of replays in this Postgres. */
export function replayPositionStore(postgres: Postgres): ReplayPositionStore {
  return {
    read: (logId) =>
      postgres.run(async (db) => {
        const rows = await db.selectFrom('replay_positions').selectAll().where('log_id', '=', logId).execute()
        return new Map(rows.map(({ partition, next_offset: next }) => [partition, BigInt(next)]))
      }),
    advance: (logId, partition, next) =>
      postgres.run(async (db) => {
        await sql`
          INSERT INTO replay_positions AS known (log_id, partition, next_offset)
          VALUES (${logId}, ${partition}, ${String(next)}::bigint)
          ON CONFLICT (log_id, partition) DO UPDATE SET next_offset = excluded.next_offset
          WHERE excluded.next_offset > known.next_offset`.execute(db)
      }),
    forget: async (logId) => {
      await postgres.run((db) => db.deleteFrom('replay_positions').where('log_id', '=', logId).execute())
    },
  }
}
