import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // Targets of alert rules are not switched off any more: no record said so, and only a change of the rule undid it.
  await sql`UPDATE endpoints SET disabled_at = NULL, disabled_reason = NULL WHERE owner = 'alert_rule'`.execute(db)
}
