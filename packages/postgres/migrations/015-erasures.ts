import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await sql`
    CREATE TABLE erasures (
      erasure_id text PRIMARY KEY,
      site_id text NOT NULL,
      kind text NOT NULL CHECK (kind IN ('user_id', 'session_id', 'event_id', 'before', 'site')),
      key_hash text,
      row_key text,
      before timestamptz,
      status text NOT NULL CHECK (status IN ('queued', 'processing', 'completed')),
      step text NOT NULL CHECK (step IN ('tombstone', 'delete', 'verify', 'done')),
      count bigint,
      key_id text NOT NULL,
      requested_at timestamptz NOT NULL,
      completed_at timestamptz,
      failed_at timestamptz,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`CREATE INDEX erasures_due_at ON erasures (due_at) WHERE due_at IS NOT NULL`.execute(db)
  await sql`CREATE INDEX erasures_unfinished ON erasures (requested_at) WHERE status <> 'completed'`.execute(db)
  // Each request that names a deleted site looks it up.
  await sql`CREATE INDEX erasures_sites ON erasures (site_id, requested_at) WHERE kind = 'site'`.execute(db)
  await sql`
    CREATE TABLE chores (
      name text PRIMARY KEY,
      status text NOT NULL DEFAULT 'queued',
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`INSERT INTO chores (name, due_at) VALUES ('retention', now())`.execute(db)
}
