import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // The tests of a site's e-mail rules in the last hour. The history of a rule is deleted with the rule.
  await sql`
    CREATE TABLE email_tests (
      site_id text NOT NULL,
      rule_id text NOT NULL,
      at timestamptz NOT NULL,
      PRIMARY KEY (site_id, rule_id, at)
    )`.execute(db)
}
