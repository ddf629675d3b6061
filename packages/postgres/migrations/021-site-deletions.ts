import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Gateways poll for deletions of sites as for changes. The default covers deletions by earlier builds.
  await sql`ALTER TABLE erasures ADD COLUMN created_xid xid8`.execute(db)
  await sql`ALTER TABLE erasures ALTER COLUMN created_xid SET DEFAULT pg_current_xact_id()`.execute(db)
  await sql`CREATE INDEX erasures_deleted_sites ON erasures (created_xid) WHERE kind = 'site'`.execute(db)
}
