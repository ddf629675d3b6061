import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // How often the file of an export was begun again because its upload could not be completed.
  await sql`ALTER TABLE exports ADD COLUMN restarts integer NOT NULL DEFAULT 0`.execute(db)
}
