import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The completed erasures whose hashes are still kept, the oldest first.
  await sql`CREATE INDEX erasures_hashes ON erasures (completed_at) WHERE key_hash IS NOT NULL`.execute(db)
}
