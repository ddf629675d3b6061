import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await sql`
    CREATE TABLE imports (
      import_id text PRIMARY KEY,
      seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
      site_id text NOT NULL,
      environment text NOT NULL CHECK (environment IN ('prod', 'dev')),
      type text NOT NULL CHECK (type IN ('events', 'users')),
      status text NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed', 'cancelled')),
      sha256 text NOT NULL,
      total_records bigint NOT NULL DEFAULT 0,
      processed_records bigint NOT NULL DEFAULT 0,
      failed_records bigint NOT NULL DEFAULT 0,
      error text,
      key_id text NOT NULL,
      created_at timestamptz NOT NULL,
      accepted_at timestamptz NOT NULL,
      finished_at timestamptz,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`CREATE INDEX imports_due_at ON imports (due_at) WHERE due_at IS NOT NULL`.execute(db)
  // For a site's oldest unfinished import, the only one that workers process.
  await sql`CREATE INDEX imports_unfinished ON imports (site_id, seq) WHERE status IN ('queued', 'processing')`.execute(
    db,
  )
  await sql`CREATE INDEX imports_site_id ON imports (site_id, created_at, import_id)`.execute(db)
  await sql`
    CREATE TABLE import_segments (
      import_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
      n integer NOT NULL,
      object text NOT NULL,
      first_record bigint NOT NULL,
      first_line bigint NOT NULL,
      records integer NOT NULL,
      processed integer NOT NULL DEFAULT 0,
      failed integer NOT NULL DEFAULT 0,
      errors_object text,
      positions jsonb,
      PRIMARY KEY (import_id, n),
      CHECK (0 <= failed AND failed <= processed AND processed <= records)
    )`.execute(db)
  // An import has no row before its upload is complete. Until then, this row counts it among its key's uploads.
  await sql`
    CREATE TABLE uploads (
      import_id text PRIMARY KEY,
      key_id text NOT NULL,
      expires_at timestamptz NOT NULL
    )`.execute(db)
  await sql`CREATE INDEX uploads_key_id ON uploads (key_id)`.execute(db)
}
