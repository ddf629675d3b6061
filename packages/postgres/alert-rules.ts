import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import { alertNotice, noticeBody } from '@sluice/contracts/alert-notices'
import {
  type AlertHistoryEntry,
  alertLimits,
  type AlertSettings,
  type NotificationType,
} from '@sluice/contracts/alerts'
import type { Page } from '@sluice/contracts/paging'
import type { Environment, SiteIds } from '@sluice/contracts/scopes'
import { minuteMs } from '@sluice/contracts/time-units'
import type { LeaseTable } from '@sluice/leases/lease-table'
import { newId } from '@sluice/runtime/ids'
import { type Evaluation, type SteppedRule, stepRules } from './alert-evaluations.ts'
import { countEmailTest, readHistory, removeOldHistory } from './alert-history.ts'
import { type AlertRule, selectRules, settingsColumns, toRule } from './alert-records.ts'
import { countRows, requireBelowLimit } from './count-rows.ts'
import { queueDeliveries } from './deliveries.ts'
import { deleteEndpoint, insertEndpoint, removeDeliveries, updateEndpoint } from './endpoints.ts'
import { leaseTable, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import { selectPage } from './page.ts'
import { lockSite } from './sites.ts'
import type { Db } from './tables.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** Where a rule's notifications go. The caller encrypts (packages/runtime/secret-cipher.ts). */
export interface AlertTarget {
  type: NotificationType
  encryptedTarget: Buffer
  targetFingerprint: Buffer
  /** Null when nothing is signed. Absent: the secret is not changed. */
  encryptedSecret?: Buffer | null
}

/** A rule that is to be stored. */
export interface NewAlertRule {
  ruleId: string
  siteId: string
  environment: Environment
  keyId: string
  settings: AlertSettings
  channel: string | null
  target: AlertTarget
}

/** A user's changes of a rule. */
export interface AlertRuleChanges {
  /** The revision that the user has changed. */
  revision: number
  settings: AlertSettings
  /** Whether the condition has changed. Then a pending state begins again, and the last value is forgotten. */
  isConditionChanged: boolean
  channel: string | null
  /** Absent: the target is not changed. */
  target?: AlertTarget
}

/** What became of a test. `limited`: the site may test its e-mail rules again at `until`, Unix ms. */
export type TestOutcome = { state: 'queued' | 'deleted' } | { state: 'limited'; until: number }

/** The rules of one site, as a job. */
export interface AlertSite {
  siteId: string
  /** The last minute for which all of its rules were evaluated, Unix ms. */
  allEvaluatedMinute: number
}

/**
 * Alert rules in Postgres. Times `at` are Unix ms of the caller's clock. Every method throws AppError `unavailable`
 * while Postgres is unavailable.
 */
export interface AlertRuleStore {
  /** The sites that have rules, as jobs. A job never fails permanently. */
  leases: LeaseTable<AlertSite>
  /**
   * Stores a rule and makes its site a job. If a rule with this id is stored already, returns that rule. Throws
   * AppError `conflict` when the site has the maximum number of rules (`alertLimits`), and `not_found` when the site
   * has been deleted.
   */
  create(rule: NewAlertRule, at: number): Promise<AlertRule>
  find(ruleId: string, siteIds: SiteIds): Promise<AlertRule | undefined>
  /** Lists the rules of one site, newest first; `total` counts all of them. */
  list(siteId: string, page: Page): Promise<{ rules: AlertRule[]; total: number }>
  /**
   * Replaces the settings. With another condition, a pending state begins again; a rule that is switched off stops
   * firing. If the rule already has exactly these changes, returns it. `changed`: somebody else has changed the rule
   * since that revision. Undefined where `find` returns undefined.
   */
  update(
    ruleId: string,
    siteIds: SiteIds,
    changes: AlertRuleChanges,
    at: number,
  ): Promise<AlertRule | 'changed' | undefined>
  /** Removes a rule with its history and its deliveries; false where `find` returns undefined. */
  delete(ruleId: string, siteIds: SiteIds): Promise<boolean>
  /** A page of the rule's transitions and tests of the 90 days before `at` (Unix ms), newest first. */
  history(ruleId: string, page: Page, at: number): Promise<{ history: AlertHistoryEntry[]; total: number }>
  /**
   * Queues a test notification to the rule's own target, unless the rule was deleted in the meantime, or sends e-mails
   * and the site has had its `alertLimits.emailTestsPerHourMax` tests of such rules. A second call with the same `at`
   * has no effect.
   */
  queueTest(rule: AlertRule, at: number): Promise<TestOutcome>
  /** The rules of a site that are switched on. */
  listEnabled(siteId: string): Promise<AlertRule[]>
  /**
   * Steps the rules by the measurements for a minute, and stores states, history and deliveries in one transaction. A
   * rule is not changed if it was evaluated for this minute or a later one, or was changed since the measurement.
   * Returns what was stored.
   */
  step(minute: number, evaluations: readonly Evaluation[], at: number): Promise<SteppedRule[]>
  /** Records that all rules of a site were evaluated for a minute, including those that failed. */
  advance(siteId: string, minute: number): Promise<void>
  /** The minute up to which the rules of all sites were evaluated; undefined when there are no rules. */
  oldestEvaluated(): Promise<number | undefined>
}

const failedRetryMs = 60_000

/** The alert rules of this Postgres. */
export function alertRuleStore(postgres: Postgres): AlertRuleStore {
  return {
    leases: siteLeases(postgres),
    create: (rule, at) => postgres.transaction((transaction) => insertRule(transaction, rule, at)),
    find: (ruleId, siteIds) => postgres.run((db) => findRule(db, ruleId, siteIds)),
    list: (siteId, page) =>
      postgres.run(async (db) => {
        const newestFirst = selectRules(db).where('alert_rules.site_id', '=', siteId).orderBy('alert_rules.seq', 'desc')
        const { rows, total } = await selectPage(newestFirst, page)
        return { rules: rows.map(toRule), total }
      }),
    update: (ruleId, siteIds, changes, at) =>
      postgres.transaction(async (transaction) => {
        const isChanged = await updateRule(transaction, ruleId, changes, at)
        const rule = await findRule(transaction, ruleId, siteIds)
        return isChanged || rule === undefined || hasChanges(rule, changes) ? rule : 'changed'
      }),
    delete: async (ruleId, siteIds) => {
      await removeDeliveries(
        postgres,
        sql`endpoint_id = ${ruleId} AND owner = 'alert_rule' AND ${visibleSiteCondition(siteIds)}`,
      )
      return postgres.transaction((transaction) => deleteRule(transaction, ruleId, siteIds))
    },
    history: (ruleId, page, at) => postgres.run((db) => readHistory(db, ruleId, page, at)),
    queueTest: (rule, at) => postgres.transaction((transaction) => insertTest(transaction, rule, at)),
    listEnabled: (siteId) =>
      postgres.run(async (db) => {
        const rows = await selectRules(db)
          .where('alert_rules.site_id', '=', siteId)
          .where('alert_rules.enabled', '=', true)
          .orderBy('alert_rules.rule_id')
          .execute()
        return rows.map(toRule)
      }),
    step: (minute, evaluations, at) =>
      evaluations.length === 0
        ? Promise.resolve([])
        : postgres.transaction((transaction) => stepRules(transaction, minute, evaluations, at)),
    advance: (siteId, minute) =>
      postgres.run(async (db) => {
        await db
          .updateTable('alert_sites')
          .set({ judged_minute: new Date(minute) })
          .where('site_id', '=', siteId)
          .where('judged_minute', '<', new Date(minute))
          .execute()
      }),
    oldestEvaluated: () =>
      postgres.run(async (db) => {
        const { oldest } = await db
          .selectFrom('alert_sites')
          .select((select) => select.fn.min('judged_minute').as('oldest'))
          .executeTakeFirstOrThrow()
        // Without rows, the aggregate is null, which its type does not tell.
        return (oldest as Date | null)?.getTime()
      }),
  }
}

function siteLeases(postgres: Postgres): LeaseTable<AlertSite> {
  return {
    ...leaseTable(postgres, 'alert_sites', (row) => ({
      siteId: row.site_id,
      allEvaluatedMinute: row.judged_minute.getTime(),
    })),
    fail: (lease, _error, now) =>
      postgres.run((db) =>
        updateHeld(db, 'alert_sites', lease, sql`failures = 0, due_at = ${new Date(now + failedRetryMs)}`),
      ),
  }
}

async function findRule(db: Db, ruleId: string, siteIds: SiteIds): Promise<AlertRule | undefined> {
  const row = await selectRules(db)
    .where('alert_rules.rule_id', '=', ruleId)
    .where(visibleSiteCondition(siteIds, 'alert_rules.site_id'))
    .executeTakeFirst()
  return row && toRule(row)
}

function rulesOf(db: Db, siteId: string) {
  return db.selectFrom('alert_rules').where('site_id', '=', siteId)
}

async function insertRule(db: Db, rule: NewAlertRule, at: number): Promise<AlertRule> {
  const { ruleId, siteId, environment, keyId, settings, channel, target } = rule
  const minute = new Date(Math.floor(at / minuteMs) * minuteMs)
  await lockSite(db, siteId)
  // Locks the row until the end of the transaction, so that the rules of a site are created and deleted one after the
  // other.
  await sql`
    INSERT INTO alert_sites AS known (site_id, judged_minute, due_at) VALUES (${siteId}, ${minute}, ${new Date(at)})
    ON CONFLICT (site_id) DO UPDATE SET due_at = least(known.due_at, excluded.due_at)`.execute(db)
  const stored = await findRule(db, ruleId, null)
  if (stored) return stored
  await requireBelowLimit(rulesOf(db, siteId), alertLimits.rulesPerSiteMax, 'alert rules')
  await insertEndpoint(
    db,
    {
      endpointId: ruleId,
      siteId,
      owner: 'alert_rule',
      channel: target.type,
      encryptedTarget: target.encryptedTarget,
      targetFingerprint: target.targetFingerprint,
      encryptedSecret: target.encryptedSecret ?? null,
      events: ['alert'],
      active: true,
      summaryInterval: null,
      keyId,
      environment,
    },
    at,
  )
  await db
    .insertInto('alert_rules')
    .values({
      rule_id: ruleId,
      site_id: siteId,
      environment,
      ...settingsColumns(settings),
      channel_name: channel,
      evaluated_minute: minute,
      created_at: new Date(at),
      updated_at: new Date(at),
    })
    .execute()
  return toRule(await selectRules(db).where('alert_rules.rule_id', '=', ruleId).executeTakeFirstOrThrow())
}

/** Returns false when there is no rule with this revision. */
async function updateRule(
  db: Db,
  ruleId: string,
  { revision, settings, isConditionChanged, channel, target }: AlertRuleChanges,
  at: number,
): Promise<boolean> {
  const off = { state: 'ok', firing_id: null } as const
  const { numUpdatedRows } = await db
    .updateTable('alert_rules')
    .set({
      ...settingsColumns(settings),
      ...(settings.enabled ? {} : off),
      ...(isConditionChanged ? { last_value: null } : {}),
      ...(isConditionChanged || !settings.enabled ? { pending_since: null, true_at: null, last_error: null } : {}),
      channel_name: channel,
      revision: revision + 1,
      updated_at: new Date(at),
    })
    .where('rule_id', '=', ruleId)
    .where('revision', '=', revision)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  if (target) {
    const { type, ...encrypted } = target
    await updateEndpoint(db, ruleId, { channel: type, ...encrypted, active: true }, at)
  }
  return true
}

/** Whether `updateRule` has stored these changes. Ciphertexts are unique, even for equal targets. */
function hasChanges(rule: AlertRule, { revision, settings, channel, target }: AlertRuleChanges): boolean {
  if (target) return rule.encryptedTarget.equals(target.encryptedTarget)
  return rule.revision === revision + 1 && rule.channel === channel && isDeepStrictEqual(rule.settings, settings)
}

async function deleteRule(db: Db, ruleId: string, siteIds: SiteIds): Promise<boolean> {
  const rule = await findRule(db, ruleId, siteIds)
  if (!rule) return false
  const { siteId } = rule
  await sql`SELECT FROM alert_sites WHERE site_id = ${siteId} FOR UPDATE`.execute(db)
  // Locks the rule before its endpoint, as evaluations and changes of a rule do. The deletion of the endpoint alone
  // would lock the rule last.
  await sql`SELECT FROM alert_rules WHERE rule_id = ${ruleId} FOR UPDATE`.execute(db)
  if (!(await deleteEndpoint(db, ruleId))) return false
  if ((await countRows(rulesOf(db, siteId))) === 0) {
    await db.deleteFrom('alert_sites').where('site_id', '=', siteId).execute()
  }
  return true
}

/** Locks the rules of a site that is being deleted. The deletion does so before it deletes their endpoints. */
export async function lockSiteRules(db: Db, siteId: string): Promise<void> {
  // In the same order as `stepRules`, because transactions that lock rows in different orders can deadlock.
  await sql`SELECT FROM alert_rules WHERE site_id = ${siteId} ORDER BY rule_id FOR UPDATE`.execute(db)
}

async function insertTest(db: Db, rule: AlertRule, at: number): Promise<TestOutcome> {
  const { ruleId, siteId, environment, settings, channel, notificationType, state } = rule
  const isEmail = notificationType === 'email'
  // Concurrent tests are counted one after the other. Deletions lock this row before those of rules, too.
  if (isEmail) await sql`SELECT FROM alert_sites WHERE site_id = ${siteId} FOR UPDATE`.execute(db)
  // Prevents a deletion of the rule until the end of the transaction.
  const { rows } = await sql`SELECT FROM alert_rules WHERE rule_id = ${ruleId} FOR KEY SHARE`.execute(db)
  if (rows.length === 0) return { state: 'deleted' }
  const until = isEmail ? await countEmailTest(db, { ruleId, siteId }, at) : undefined
  if (until !== undefined) return { state: 'limited', until }
  const source = `alert_test:${newId('fir')}`
  const value = state.lastValue ?? 0
  const notice = alertNotice(
    { ruleId, environment, name: settings.name, condition: settings.condition, channel },
    { siteId, timestamp: at },
    { state: 'firing', value, firingId: newId('fir'), isNoData: state.state === 'no_data', isTest: true },
  )
  const inserted = await db
    .insertInto('alert_history')
    .values({
      rule_id: ruleId,
      minute: new Date(at),
      is_test: true,
      from_state: state.state,
      to_state: state.state,
      value,
      firing_id: notice.data.firing_id,
      source,
    })
    // A second test in the same millisecond counts as the same test.
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if (inserted.numInsertedOrUpdatedRows === 0n) return { state: 'queued' }
  await removeOldHistory(db, ruleId, at)
  const body = noticeBody(notice, notificationType)
  await queueDeliveries(db, [{ endpointId: ruleId, source, kind: 'alert', body, requested: true }], at)
  return { state: 'queued' }
}
