import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Null: events of pages of every origin are taken.
  await sql`ALTER TABLE api_keys ADD COLUMN allowed_origins text[]`.execute(db)
}
