import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await sql`
    CREATE TABLE endpoints (
      endpoint_id text PRIMARY KEY,
      seq bigserial,
      site_id text NOT NULL,
      owner text NOT NULL CHECK (owner IN ('webhook', 'alert_rule')),
      channel text NOT NULL CHECK (channel IN ('webhook', 'slack', 'email')),
      target_box bytea NOT NULL,
      target_fingerprint bytea NOT NULL,
      secret_box bytea,
      previous_secret_box bytea,
      previous_secret_until timestamptz,
      events text[] NOT NULL,
      active boolean NOT NULL,
      summary_interval text CHECK (summary_interval IN ('1h', '1d')),
      key_id text NOT NULL,
      environment text NOT NULL CHECK (environment IN ('prod', 'dev')),
      failing_since timestamptz,
      failures_in_row integer NOT NULL DEFAULT 0,
      exhausted integer NOT NULL DEFAULT 0,
      disabled_at timestamptz,
      disabled_reason text,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    )`.execute(db)
  await sql`CREATE INDEX endpoints_sites ON endpoints (site_id, seq)`.execute(db)
  await sql`
    CREATE TABLE deliveries (
      delivery_id text PRIMARY KEY,
      endpoint_id text NOT NULL REFERENCES endpoints ON DELETE CASCADE,
      source text NOT NULL,
      kind text NOT NULL,
      body bytea NOT NULL,
      status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
      requested boolean NOT NULL DEFAULT false,
      attempts integer NOT NULL DEFAULT 0,
      created_at timestamptz NOT NULL,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      UNIQUE (source, endpoint_id)
    )`.execute(db)
  // The workers first look for endpoints with due deliveries, then for the due deliveries of each.
  await sql`CREATE INDEX deliveries_due_at ON deliveries (endpoint_id, due_at) WHERE due_at IS NOT NULL`.execute(db)
  await sql`
    CREATE INDEX deliveries_leased ON deliveries (endpoint_id, lease_until) WHERE lease_until IS NOT NULL`.execute(db)
  await sql`CREATE INDEX deliveries_endpoints ON deliveries (endpoint_id, created_at, delivery_id)`.execute(db)
  await sql`CREATE INDEX deliveries_created_at ON deliveries (created_at)`.execute(db)
  await sql`
    CREATE TABLE attempts (
      delivery_id text NOT NULL REFERENCES deliveries ON DELETE CASCADE,
      n integer NOT NULL,
      at timestamptz NOT NULL,
      status integer,
      latency_ms integer NOT NULL,
      response text,
      error text,
      PRIMARY KEY (delivery_id, n)
    )`.execute(db)
}
