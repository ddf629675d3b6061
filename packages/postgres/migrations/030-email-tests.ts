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
  // An upgrade does not lift the limit. Tests by a process of an earlier build, which may still run beside it, are not
  // counted from here on.
  await sql`
    INSERT INTO email_tests
    SELECT site_id, rule_id, minute FROM alert_history JOIN endpoints ON endpoint_id = rule_id
    WHERE is_test AND channel = 'email' AND minute > now() - interval '1 hour'`.execute(db)
}
