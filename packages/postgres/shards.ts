import { sql } from 'kysely'
import { AppError } from '@sluice/runtime/errors'
import { oldestBuildOfShards } from '@sluice/runtime/schema-versions'
import type { Postgres } from './open.ts'

/**
 * The number of shards of ClickHouse, which decides on which of them an event is stored: so it never changes. Every method
 * throws AppError 503 while Postgres is away.
 */
export interface ShardStore {
  /** Undefined: `npm run migrate` has not noted it yet. */
  read(): Promise<number | undefined>
  /** Throws AppError, with what to do, when another number is noted. */
  requireSame(shards: number): Promise<void>
  /** Notes the number for ever. Throws as `requireSame` does. */
  fix(shards: number): Promise<void>
}

/** The number of shards that this Postgres has noted. */
export function shardStore(postgres: Postgres): ShardStore {
  const read = () =>
    postgres.run(async (db) => (await db.selectFrom('shards').select('number').executeTakeFirst())?.number)

  async function requireSame(shards: number): Promise<void> {
    const known = await read()
    if (known === undefined || known === shards) return
    throw new AppError('internal', {
      message: 'Internal server error',
      internal:
        `SLUICE_CLICKHOUSE_URL leads to ${counted(shards)}, and the events are stored on ${counted(known)}. The number of ` +
        'shards can not be changed: use the URL of before, or a new installation with an empty Postgres.',
    })
  }

  return {
    read,
    requireSame,
    fix: async (shards) => {
      await postgres.run(async (db) => {
        await sql`INSERT INTO shards (number) VALUES (${shards}) ON CONFLICT DO NOTHING`.execute(db)
        if (shards > 1) {
          await sql`
            UPDATE migration_builds SET oldest_build = ${oldestBuildOfShards}
            WHERE name = '024-shards' AND oldest_build < ${oldestBuildOfShards}`.execute(db)
        }
      })
      await requireSame(shards)
    },
  }
}

function counted(shards: number): string {
  return shards === 1 ? 'one server' : `a cluster of ${shards} shards`
}
