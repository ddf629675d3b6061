import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // A rule owns an endpoint and is deleted together with it.
  await sql`
    CREATE TABLE alert_rules (
      rule_id text PRIMARY KEY REFERENCES endpoints ON DELETE CASCADE,
      seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
      site_id text NOT NULL,
      environment text NOT NULL CHECK (environment IN ('prod', 'dev')),
      name text NOT NULL,
      description text,
      condition jsonb NOT NULL,
      "for" text NOT NULL,
      cooldown text NOT NULL,
      no_data text NOT NULL CHECK (no_data IN ('zero', 'keep', 'alert')),
      enabled boolean NOT NULL,
      channel_name text,
      revision integer NOT NULL DEFAULT 0,
      state text NOT NULL DEFAULT 'ok' CHECK (state IN ('ok', 'firing', 'no_data')),
      pending_since timestamptz,
      true_at timestamptz,
      firing_id text,
      last_fired_at timestamptz,
      last_value double precision,
      evaluated_minute timestamptz NOT NULL,
      last_evaluated_at timestamptz,
      last_error text,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      CHECK ((state = 'ok') = (firing_id IS NULL))
    )`.execute(db)
  await sql`CREATE INDEX alert_rules_sites ON alert_rules (site_id, seq)`.execute(db)
  await sql`
    CREATE TABLE alert_history (
      rule_id text NOT NULL REFERENCES alert_rules ON DELETE CASCADE,
      minute timestamptz NOT NULL,
      is_test boolean NOT NULL DEFAULT false,
      from_state text NOT NULL,
      to_state text NOT NULL,
      value double precision NOT NULL,
      firing_id text,
      source text NOT NULL,
      PRIMARY KEY (rule_id, minute, is_test)
    )`.execute(db)
  // The rules of a site are evaluated together: one row for each site that has rules.
  await sql`
    CREATE TABLE alert_sites (
      site_id text PRIMARY KEY,
      status text NOT NULL DEFAULT 'active',
      judged_minute timestamptz NOT NULL,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`CREATE INDEX alert_sites_due_at ON alert_sites (due_at) WHERE due_at IS NOT NULL`.execute(db)
}
