import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // An import has no row before its upload is complete: this one counts it among its key's uploads meanwhile.
  await sql`
    CREATE TABLE uploads (
      import_id text PRIMARY KEY,
      key_id text NOT NULL,
      expires_at timestamptz NOT NULL
    )`.execute(db)
  await sql`CREATE INDEX uploads_key_id ON uploads (key_id)`.execute(db)
}
