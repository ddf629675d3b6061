import { sql } from 'kysely'
import type { AlertState } from '@sluice/contracts/alert-state'
import { type AlertHistoryEntry, alertLimits } from '@sluice/contracts/alerts'
import type { Page } from '@sluice/contracts/paging'
import { dayMs, hourMs } from '@sluice/contracts/time-units'
import type { DeliveryStatus } from '@sluice/contracts/webhooks'
import { countRows } from './count-rows.ts'
import type { Db } from './tables.ts'

interface HistoryRow {
  minute: Date
  is_test: boolean
  from_state: AlertState['state']
  to_state: AlertState['state']
  value: number
  firing_id: string | null
  delivery_status: DeliveryStatus | null
  attempts: number | null
  last_attempt_at: Date | null
  last_status: number | null
  last_error: string | null
}

/** How long a rule's history is kept. */
const historyMs = alertLimits.historyDays * dayMs

/**
 * A page of a rule's history in the 90 days before `at` (Unix ms), newest first. Each entry contains the delivery to
 * the rule's own endpoint and its last attempt.
 */
export async function readHistory(
  db: Db,
  ruleId: string,
  { limit, offset }: Page,
  at: number,
): Promise<{ history: AlertHistoryEntry[]; total: number }> {
  const since = new Date(at - historyMs)
  const { rows } = await sql<HistoryRow>`
    SELECT
      minute, is_test, from_state, to_state, value, firing_id,
      deliveries.status AS delivery_status, deliveries.attempts,
      last.at AS last_attempt_at, last.status AS last_status, last.error AS last_error
    FROM alert_history
    LEFT JOIN deliveries ON deliveries.endpoint_id = rule_id AND deliveries.source = alert_history.source
    LEFT JOIN attempts AS last ON last.delivery_id = deliveries.delivery_id AND last.n = deliveries.attempts
    WHERE rule_id = ${ruleId} AND minute >= ${since}
    ORDER BY minute DESC, is_test DESC LIMIT ${limit} OFFSET ${offset}`.execute(db)
  const listed = db.selectFrom('alert_history').where('rule_id', '=', ruleId).where('minute', '>=', since)
  return { history: rows.map(toEntry), total: await countRows(listed) }
}

/** Removes the entries of a rule that `readHistory` no longer lists at `at` (Unix ms). */
export async function removeOldHistory(db: Db, ruleId: string, at: number): Promise<void> {
  await db
    .deleteFrom('alert_history')
    .where('rule_id', '=', ruleId)
    .where('minute', '<', new Date(at - historyMs))
    .execute()
}

/**
 * Counts a test of an e-mail rule at `at` (Unix ms), unless the site has had `alertLimits.emailTestsPerHourMax` of them
 * within an hour: then it returns when the next one is possible, in Unix ms. A test of the rule at the same `at` is the
 * same test, and does not count. The tests of a site must be counted one after the other. They still count when the site
 * was deleted and registered again.
 */
export async function countEmailTest(
  db: Db,
  { ruleId, siteId }: { ruleId: string; siteId: string },
  at: number,
): Promise<number | undefined> {
  const since = new Date(at - hourMs)
  // Those of other sites too, which may have been deleted. Rows that another transaction is removing are skipped.
  await sql`
    DELETE FROM email_tests WHERE (site_id, rule_id, at) IN (
      SELECT site_id, rule_id, at FROM email_tests WHERE at <= ${since} FOR UPDATE SKIP LOCKED
    )`.execute(db)
  const tests = await db
    .selectFrom('email_tests')
    .select(['rule_id', 'at'])
    .where('site_id', '=', siteId)
    .where('at', '>', since)
    .orderBy('at', 'desc')
    .execute()
  if (tests.some((test) => test.rule_id === ruleId && test.at.getTime() === at)) return undefined
  const oldest = tests[alertLimits.emailTestsPerHourMax - 1]
  if (oldest) return oldest.at.getTime() + hourMs
  await db
    .insertInto('email_tests')
    .values({ site_id: siteId, rule_id: ruleId, at: new Date(at) })
    .execute()
}

/**
 * Whether the e-mail rules of the site have had their `alertLimits.emailsPerHourMax` e-mails in the hour before `at`
 * (Unix ms). Those that were stored as `failed` and never taken do not count.
 */
export async function isOutOfEmails(db: Db, siteId: string, at: number): Promise<boolean> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::int AS count FROM endpoints JOIN deliveries USING (endpoint_id)
    WHERE site_id = ${siteId} AND owner = 'alert_rule' AND channel = 'email'
      AND deliveries.created_at > ${new Date(at - hourMs)} AND NOT (status = 'failed' AND lease = 0)`.execute(db)
  return (rows[0]?.count ?? 0) >= alertLimits.emailsPerHourMax
}

function toEntry(row: HistoryRow): AlertHistoryEntry {
  return {
    timestamp: row.minute.getTime(),
    from: row.from_state,
    to: row.to_state,
    value: row.value,
    firing_id: row.firing_id,
    test: row.is_test,
    notification:
      row.delivery_status === null
        ? null
        : {
            status: row.delivery_status,
            attempts: row.attempts ?? 0,
            last_attempt_at: row.last_attempt_at?.getTime() ?? null,
            last_status: row.last_status,
            last_error: row.last_error,
          },
  }
}
