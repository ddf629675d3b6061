import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  await sql`
    CREATE TABLE backups (
      backup_id text PRIMARY KEY,
      kind text NOT NULL CHECK (kind IN ('full', 'incremental', 'postgres')),
      target text NOT NULL,
      started_at timestamptz NOT NULL,
      finished_at timestamptz NOT NULL
    )`.execute(db)
  await sql`CREATE INDEX backups_finished_at ON backups (finished_at)`.execute(db)
}
