import { type Kysely, sql } from 'kysely'

/** With one shard. `shardStore` raises it when there are several: earlier builds know no shards. */
export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // At most one row.
  await sql`
    CREATE TABLE shards (
      is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
      number integer NOT NULL CHECK (number > 0 AND number & (number - 1) = 0)
    )`.execute(db)
  // With a log, there may be events: those of earlier builds are on one server.
  await sql`INSERT INTO shards (number) SELECT 1 WHERE EXISTS (SELECT FROM log_watermarks)`.execute(db)
}
