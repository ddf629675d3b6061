import { type Kysely, sql } from 'kysely'

/** With one shard. With several shards, `shardStore` raises it, because earlier builds do not know shards. */
export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // At most one row.
  await sql`
    CREATE TABLE shards (
      is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
      number integer NOT NULL CHECK (number > 0 AND number & (number - 1) = 0)
    )`.execute(db)
  // If there is a log, there may be events of earlier builds, which are on one server.
  await sql`INSERT INTO shards (number) SELECT 1 WHERE EXISTS (SELECT FROM log_watermarks)`.execute(db)
}
