import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The current run of the deletion of expired events: its time, and the last site that it has processed. Null: there
  // is no current run. Earlier builds begin with the first site each time.
  await sql`ALTER TABLE chores ADD COLUMN run_at timestamptz, ADD COLUMN after_site text`.execute(db)
}
