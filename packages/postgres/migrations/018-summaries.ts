import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await sql`
    CREATE TABLE summaries (
      summary_id text PRIMARY KEY,
      site_id text NOT NULL,
      environment text NOT NULL CHECK (environment IN ('prod', 'dev')),
      summary_interval text NOT NULL CHECK (summary_interval IN ('1h', '1d')),
      status text NOT NULL DEFAULT 'active',
      since timestamptz NOT NULL,
      next_start timestamptz,
      due_at timestamptz,
      lease_until timestamptz,
      lease bigint NOT NULL DEFAULT 0,
      tries integer NOT NULL DEFAULT 0,
      failures integer NOT NULL DEFAULT 0
    )`.execute(db)
  await sql`CREATE INDEX summaries_due_at ON summaries (due_at) WHERE due_at IS NOT NULL`.execute(db)
}
