import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The sites with unfinished erasures, and those of one site that have been due longest.
  await sql`CREATE INDEX erasures_site_due ON erasures (site_id, due_at) WHERE due_at IS NOT NULL`.execute(db)
  // The same of the erasures whose rows are to be deleted.
  await sql`
    CREATE INDEX erasures_deletable ON erasures (site_id, requested_at)
    WHERE step = 'delete' AND status <> 'completed'`.execute(db)
}
