import { sql } from 'kysely'
import { internalError } from '@sluice/runtime/errors'
import { oldestBuildOfShards } from '@sluice/runtime/schema-versions'
import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'

/** The shards of ClickHouse, as Postgres has recorded them. */
export interface Shards {
  /** The number of shards, by which the shard of an event is chosen. */
  number: number
  /** When `npm run reshard` began to double the number, by the clock of Postgres; null: it is not being doubled. */
  doublingSince: Date | null
}

/**
 * The number of shards of ClickHouse, which only `npm run reshard` changes, because it moves the events. Every method
 * throws AppError 503 while Postgres is unavailable.
 */
export interface ShardStore {
  /** The number; undefined: `npm run migrate` has not noted it yet. */
  read(): Promise<number | undefined>
  /** Like `read`, and whether the number is being doubled. */
  readState(): Promise<Shards | undefined>
  /** Throws AppError, with what to do, when another number is noted. */
  requireSame(shards: number): Promise<void>
  /** Notes the number, if none is noted. Throws as `requireSame` does. */
  fix(shards: number): Promise<void>
  /** Notes that the number is being doubled, until `double` or `cancelDoubling`; a second call changes nothing. */
  startDoubling(): Promise<void>
  /** Ends the doubling. Throws AppError when it is not the one that was `read`: another command has ended that. */
  cancelDoubling(read: Shards): Promise<void>
  /** Notes twice the number. Throws as `cancelDoubling` does. */
  double(read: Shards): Promise<void>
}

/**
 * The number of shards by whose multiple an event's partition must be chosen to be on the shard of its hash: while the
 * number is being doubled, that of afterwards.
 */
export function placementShards({ number, doublingSince }: Shards): number {
  return doublingSince === null ? number : 2 * number
}

/**
 * How long a gateway may rely on having read that there is one shard. Gateways read it more often; one that can't
 * reckons with several from then on, so that all know of a doubling after this time.
 */
export const oneShardLeaseMs = 30_000

/** The number of shards that this Postgres has noted. */
export function shardStore(postgres: Postgres): ShardStore {
  const read = () =>
    postgres.run(async (db) => (await db.selectFrom('shards').select('number').executeTakeFirst())?.number)

  async function requireSame(shards: number): Promise<void> {
    const known = await read()
    if (known === undefined || known === shards) return
    throw internalError(
      `SLUICE_CLICKHOUSE_URL leads to ${counted(shards)}, and the events are stored on ${counted(known)}. Only ` +
        '"npm run reshard" changes the number of shards (docs/scale-out.md): use the URL of those, or a new installation ' +
        'with an empty Postgres.',
    )
  }

  return {
    read,
    readState: () =>
      postgres.run((db) =>
        db.selectFrom('shards').select(['number', 'doubling_since as doublingSince']).executeTakeFirst(),
      ),
    requireSame,
    fix: async (shards) => {
      await postgres.run(async (db) => {
        await sql`INSERT INTO shards (number) VALUES (${shards}) ON CONFLICT DO NOTHING`.execute(db)
        if (shards > 1) await noteOldestBuild(db)
      })
      await requireSame(shards)
    },
    startDoubling: () =>
      postgres.run(async (db) => {
        // As precise as a Date, by which `endDoubling` compares it.
        await sql`
          UPDATE shards SET doubling_since = date_trunc('milliseconds', clock_timestamp())
          WHERE doubling_since IS NULL`.execute(db)
      }),
    cancelDoubling: (doubling) => postgres.run((db) => endDoubling(db, doubling, doubling.number)),
    double: (doubling) =>
      postgres.transaction(async (transaction) => {
        await noteOldestBuild(transaction)
        await endDoubling(transaction, doubling, 2 * doubling.number)
      }),
  }
}

/** A command of a reshard may have lost its lock, and another one may have ended the doubling meanwhile. */
async function endDoubling(db: Db, { number, doublingSince }: Shards, next: number): Promise<void> {
  const { numAffectedRows } = await sql`
    UPDATE shards SET number = ${next}, doubling_since = NULL
    WHERE number = ${number} AND doubling_since = ${doublingSince}`.execute(db)
  if (numAffectedRows === 1n) return
  throw internalError('Another "npm run reshard" has ended the doubling of the number of shards meanwhile.')
}

/** Builds that know no shards would store all events on one of several. */
async function noteOldestBuild(db: Db): Promise<void> {
  await sql`
    UPDATE migration_builds SET oldest_build = ${oldestBuildOfShards}
    WHERE name = '024-shards' AND oldest_build < ${oldestBuildOfShards}`.execute(db)
}

function counted(shards: number): string {
  return shards === 1 ? 'one server' : `a cluster of ${shards} shards`
}
