import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // One export, one run of a schedule (schedule_id is set), or the definition of a schedule (its id is in
  // export_schedules).
  await sql`
    CREATE TABLE exports (
      export_id text PRIMARY KEY,
      seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
      schedule_id text REFERENCES exports ON DELETE CASCADE,
      occurrence timestamptz,
      site_id text NOT NULL,
      key_id text NOT NULL,
      name text NOT NULL,
      type text NOT NULL CHECK (type IN ('events', 'users', 'sessions', 'stats', 'cohort')),
      spec jsonb NOT NULL,
      status text NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed', 'cancelled', 'expired')),
      received_from timestamptz,
      received_until timestamptz,
      rows bigint NOT NULL DEFAULT 0,
      bytes bigint NOT NULL DEFAULT 0,
      progress real NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100),
      object text,
      upload_id text,
      after_key jsonb,
      etag text,
      error text,
      created_at timestamptz NOT NULL,
      finished_at timestamptz,
      expires_at timestamptz,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0,
      UNIQUE (schedule_id, occurrence),
      CHECK ((schedule_id IS NULL) = (occurrence IS NULL))
    )`.execute(db)
  await sql`CREATE INDEX exports_due_at ON exports (due_at) WHERE due_at IS NOT NULL`.execute(db)
  // A site's exports that wait or run.
  await sql`CREATE INDEX exports_unfinished ON exports (site_id, seq) WHERE due_at IS NOT NULL`.execute(db)
  await sql`CREATE INDEX exports_site_id ON exports (site_id, created_at, export_id) WHERE schedule_id IS NULL`.execute(
    db,
  )
  await sql`CREATE INDEX exports_expires_at ON exports (expires_at) WHERE status = 'completed'`.execute(db)
  await sql`
    CREATE TABLE export_parts (
      export_id text NOT NULL REFERENCES exports ON DELETE CASCADE,
      n integer NOT NULL,
      etag text NOT NULL,
      bytes bigint NOT NULL,
      PRIMARY KEY (export_id, n)
    )`.execute(db)
  await sql`
    CREATE TABLE export_schedules (
      schedule_id text PRIMARY KEY REFERENCES exports ON DELETE CASCADE,
      status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'failed')),
      frequency text NOT NULL CHECK (frequency IN ('hourly', 'daily', 'weekly', 'monthly')),
      anchor timestamptz NOT NULL,
      next_run timestamptz NOT NULL,
      paused boolean NOT NULL DEFAULT false,
      last_cutoff timestamptz,
      error text,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`CREATE INDEX export_schedules_due_at ON export_schedules (due_at) WHERE due_at IS NOT NULL`.execute(db)
}
