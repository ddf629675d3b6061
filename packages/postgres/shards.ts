import { sql } from 'kysely'
import { internalError } from '@sluice/runtime/errors'
import { oldestBuildOfShards } from '@sluice/runtime/schema-versions'
import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'
import { toDate } from './time.ts'

/** The shards of ClickHouse, as Postgres has recorded them. */
export interface Shards {
  /** The number of shards. An event's shard is chosen by it. */
  number: number
  /** Unix ms at which `npm run reshard` began to double the number, by Postgres's clock; null: it is not being doubled. */
  doublingSince: number | null
}

/**
 * The number of ClickHouse's shards. Only `npm run reshard` changes it, because it moves the events. Every method
 * throws AppError `unavailable` while Postgres is unavailable.
 */
export interface ShardStore {
  /**
   * The number; undefined when `npm run migrate` has not recorded it yet. It can be read before the migration
   * `025-reshard`, which adds what `readState` reads.
   */
  read(): Promise<number | undefined>
  /** Like `read`, and whether the number is being doubled. */
  readState(): Promise<Shards | undefined>
  /** Throws AppError, with what to do, when another number is recorded. */
  requireSame(shards: number): Promise<void>
  /** Records the number, if none is recorded. Throws the error of `requireSame`. */
  record(shards: number): Promise<void>
  /** Records that the number is being doubled, until `double` or `cancelDoubling`. A second call changes nothing. */
  startDoubling(): Promise<void>
  /**
   * Ends the doubling. Throws AppError if it is not the doubling that was `read`, because another command has ended
   * that one.
   */
  cancelDoubling(read: Shards): Promise<void>
  /** Records the doubled number. Throws the error of `cancelDoubling`. */
  double(read: Shards): Promise<void>
}

/**
 * The number of shards that determines an event's partition: the partition modulo this number must be the event's hash
 * modulo it. While the number is being doubled, this is the doubled number.
 */
export function placementShards({ number, doublingSince }: Shards): number {
  return doublingSince === null ? number : 2 * number
}

/**
 * How long a gateway may rely on the information that there is one shard. Gateways read it more often. If a gateway
 * can't read it, it assumes several shards after this time. After this time, all gateways therefore know of a doubling.
 */
export const oneShardLeaseMs = 30_000

/** The number of shards that this Postgres has recorded. */
export function shardStore(postgres: Postgres): ShardStore {
  const read = () =>
    postgres.run(async (db) => (await db.selectFrom('shards').select('number').executeTakeFirst())?.number)

  async function requireSame(shards: number): Promise<void> {
    const recorded = await read()
    if (recorded === undefined || recorded === shards) return
    throw internalError(
      `SLUICE_CLICKHOUSE_URL leads to ${counted(shards)}, and the events are stored on ${counted(recorded)}. Only ` +
        '"npm run reshard" changes the number of shards (docs/scale-out.md): use the URL of those, or a new installation ' +
        'with an empty Postgres.',
    )
  }

  return {
    read,
    readState: () =>
      postgres.run(async (db) => {
        const row = await db.selectFrom('shards').select(['number', 'doubling_since']).executeTakeFirst()
        return row && { number: row.number, doublingSince: row.doubling_since?.getTime() ?? null }
      }),
    requireSame,
    record: async (shards) => {
      await postgres.run(async (db) => {
        await sql`INSERT INTO shards (number) VALUES (${shards}) ON CONFLICT DO NOTHING`.execute(db)
        if (shards > 1) await recordOldestBuild(db)
      })
      await requireSame(shards)
    },
    startDoubling: () =>
      postgres.run(async (db) => {
        // Truncated to milliseconds, the precision of the record, because `endDoubling` compares it with one.
        await sql`
          UPDATE shards SET doubling_since = date_trunc('milliseconds', clock_timestamp())
          WHERE doubling_since IS NULL`.execute(db)
      }),
    cancelDoubling: (doubling) => postgres.run((db) => endDoubling(db, doubling, doubling.number)),
    double: (doubling) =>
      postgres.transaction(async (transaction) => {
        await recordOldestBuild(transaction)
        await endDoubling(transaction, doubling, 2 * doubling.number)
      }),
  }
}

/** A reshard command may have lost its lock, and another command may have ended the doubling in the meantime. */
async function endDoubling(db: Db, { number, doublingSince }: Shards, next: number): Promise<void> {
  const { numAffectedRows } = await sql`
    UPDATE shards SET number = ${next}, doubling_since = NULL
    WHERE number = ${number} AND doubling_since = ${toDate(doublingSince)}`.execute(db)
  if (numAffectedRows === 1n) return
  throw internalError('Another "npm run reshard" has ended the doubling of the number of shards meanwhile.')
}

/** Builds that do not know shards would store all events on one shard. */
async function recordOldestBuild(db: Db): Promise<void> {
  await sql`
    UPDATE migration_builds SET oldest_build = ${oldestBuildOfShards}
    WHERE name = '024-shards' AND oldest_build < ${oldestBuildOfShards}`.execute(db)
}

function counted(shards: number): string {
  return shards === 1 ? 'one server' : `a cluster of ${shards} shards`
}
