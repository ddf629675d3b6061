import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Fingerprints of the recipients of an e-mail that need no further attempt, while others do.
  await sql`ALTER TABLE deliveries ADD COLUMN settled_recipients bytea[] NOT NULL DEFAULT '{}'`.execute(db)
}
