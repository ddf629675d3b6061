import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // A separate table, because workers of earlier builds treat every row of `chores` as the deletion of expired events.
  await sql`
    CREATE TABLE canary_runs (
      name text PRIMARY KEY,
      status text NOT NULL DEFAULT 'queued',
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`INSERT INTO canary_runs (name, due_at) VALUES ('canary', now())`.execute(db)
  await sql`
    CREATE TABLE canary_events (
      site_id text NOT NULL,
      event_id text NOT NULL,
      timestamp timestamptz NOT NULL,
      acknowledged_at timestamptz NOT NULL,
      found_at timestamptz,
      lost_at timestamptz,
      doubled_at timestamptz,
      PRIMARY KEY (site_id, event_id)
    )`.execute(db)
}
