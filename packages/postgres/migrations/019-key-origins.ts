import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Null: events from pages of all origins are accepted.
  await sql`ALTER TABLE api_keys ADD COLUMN allowed_origins text[]`.execute(db)
}
