import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The criteria of the export's cohort when its file was begun. Null: no file was begun, or the export names no
  // cohort.
  await sql`ALTER TABLE exports ADD COLUMN cohort_criteria jsonb`.execute(db)
}
