import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // For the latest run of a schedule, and the list of its runs.
  await sql`CREATE INDEX exports_runs ON exports (schedule_id, seq) WHERE schedule_id IS NOT NULL`.execute(db)
  // For erasures: a site's exports that run, are completed, or have expired lately.
  await sql`CREATE INDEX exports_site_status ON exports (site_id, status, expires_at)`.execute(db)
  await sql`CREATE INDEX api_keys_created_at ON api_keys (created_at, key_id)`.execute(db)
  // The deliveries that workers may take. An index of due_at alone would also tempt the planner where it looks for the
  // first delivery of one endpoint.
  await sql`
    CREATE INDEX deliveries_takeable ON deliveries (greatest(due_at, lease_until)) WHERE due_at IS NOT NULL`.execute(db)
  // Identity columns are unique without the constraint, in whose index Postgres would otherwise look for the runs of one
  // schedule among those of all. The last statement, because nobody can read the table from here to the commit. In an
  // upgrade over 026, nobody can from there on, because all migrations of a run are one transaction.
  await sql`ALTER TABLE exports DROP CONSTRAINT exports_seq_key`.execute(db)
}
