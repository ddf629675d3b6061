import { sql } from 'kysely'
import { alertNotice, noticeBody } from '@sluice/contracts/alert-notices'
import {
  type AlertState,
  type AlertTransition,
  type AlertTrigger,
  type Measured,
  nextAlertState,
} from '@sluice/contracts/alert-state'
import { alertLimits, type AlertSettings } from '@sluice/contracts/alerts'
import { durationMs } from '@sluice/runtime/durations'
import { newId } from '@sluice/runtime/ids'
import { isOutOfEmails, removeOldHistory } from './alert-history.ts'
import { type AlertRule, selectRules, toRule } from './alert-records.ts'
import { queueDeliveries, queueFailed, queueForWebhooks } from './deliveries.ts'
import type { Db } from './tables.ts'

/** The measurement for a rule at one of its revisions. */
export interface Evaluation {
  ruleId: string
  revision: number
  measured: Measured
  /** Why the measurement failed, for users. */
  error?: string
}

/** A rule's state after the step of an evaluation. */
export interface SteppedRule {
  ruleId: string
  state: AlertState
  transition?: AlertTransition
}

/** The part of the settings that `nextAlertState` needs. */
export function triggerOf({
  condition,
  for: duration,
  cooldown,
  no_data: noData,
}: Pick<AlertSettings, 'condition' | 'for' | 'cooldown' | 'no_data'>): AlertTrigger {
  const { operator, threshold } = condition
  return { operator, threshold, forMs: durationMs(duration) ?? 0, cooldownMs: durationMs(cooldown) ?? 0, noData }
}

/**
 * Steps rules in the caller's transaction. It locks each rule before it reads the state, and skips rules that were
 * evaluated for this minute or a later one. If several workers evaluate a minute, only one of them has an effect.
 * Measurements of a suspended worker have none if another worker has evaluated the minute or a later one since.
 */
export async function stepRules(
  db: Db,
  minute: number,
  evaluations: readonly Evaluation[],
  at: number,
): Promise<SteppedRule[]> {
  const byRule = new Map(evaluations.map((evaluation) => [evaluation.ruleId, evaluation]))
  const rows = await selectRules(db)
    .where('alert_rules.rule_id', 'in', [...byRule.keys()])
    .where('alert_rules.enabled', '=', true)
    .where('alert_rules.evaluated_minute', '<', new Date(minute))
    // In one order, because transactions that lock the same rows in different orders can deadlock.
    .orderBy('alert_rules.rule_id')
    .forUpdate('alert_rules')
    .execute()
  const stepped = rows.flatMap((row) => {
    const rule = toRule(row)
    const evaluation = byRule.get(rule.ruleId)
    return evaluation?.revision === rule.revision ? [stepRule(rule, minute, evaluation)] : []
  })
  if (stepped.length === 0) return []
  await updateStates(db, minute, stepped, at)
  for (const each of stepped) {
    if (each.transition) await recordTransition(db, minute, { ...each, transition: each.transition }, at)
  }
  return stepped.map(({ rule: { ruleId }, state, transition }) => ({
    ruleId,
    state,
    ...(transition && { transition }),
  }))
}

interface RuleStep {
  rule: AlertRule
  state: AlertState
  /** Id of the firing after the step; null when the rule does not fire. */
  firingId: string | null
  transition?: AlertTransition
  hasFailed: boolean
  error: string | null
}

function stepRule(rule: AlertRule, minute: number, { measured, error }: Evaluation): RuleStep {
  const { state, transition } = nextAlertState(triggerOf(rule.settings), rule.state, minute, measured)
  const firingId = state.state === 'ok' ? null : (rule.firingId ?? newId('fir'))
  const hasFailed = measured.outcome === 'failed'
  return {
    rule,
    state,
    firingId,
    hasFailed,
    error: hasFailed ? (error ?? null) : null,
    ...(transition && { transition }),
  }
}

async function updateStates(db: Db, minute: number, stepped: readonly RuleStep[], at: number): Promise<void> {
  const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())
  const next = stepped.map(({ rule, state, firingId, hasFailed, error }) => ({
    rule_id: rule.ruleId,
    state: state.state,
    pending_since: time(state.pendingSince),
    true_at: time(state.trueAt),
    firing_id: firingId,
    last_fired_at: time(state.lastFiredAt),
    last_value: state.lastValue,
    // A failed measurement does not count as an evaluation: the minute may still be evaluated.
    evaluated_minute: time(hasFailed ? rule.evaluatedMinute : minute),
    last_evaluated_at: time(hasFailed ? rule.lastEvaluatedAt : at),
    last_error: error,
  }))
  await sql`
    UPDATE alert_rules SET
      state = next.state, pending_since = next.pending_since, true_at = next.true_at, firing_id = next.firing_id,
      last_fired_at = next.last_fired_at, last_value = next.last_value, evaluated_minute = next.evaluated_minute,
      last_evaluated_at = next.last_evaluated_at, last_error = next.last_error
    FROM jsonb_to_recordset(${JSON.stringify(next)}::jsonb) AS next (
      rule_id text, state text, pending_since timestamptz, true_at timestamptz, firing_id text, last_fired_at timestamptz,
      last_value double precision, evaluated_minute timestamptz, last_evaluated_at timestamptz, last_error text
    )
    WHERE alert_rules.rule_id = next.rule_id`.execute(db)
}

/**
 * Records a transition and queues its notifications: one to each webhook of the site that takes alerts, and one to the
 * rule's own target, unless a webhook has the same URL.
 */
async function recordTransition(
  db: Db,
  minute: number,
  { rule, state, firingId, transition }: RuleStep & { transition: AlertTransition },
  at: number,
): Promise<void> {
  const { ruleId, siteId, environment, settings, channel, notificationType } = rule
  const source = `alert:${ruleId}:${minute}`
  // A resolution has the id of the firing that it ends.
  const noticeFiringId = firingId ?? rule.firingId ?? newId('fir')
  await db
    .insertInto('alert_history')
    .values({
      rule_id: ruleId,
      minute: new Date(minute),
      from_state: rule.state.state,
      to_state: state.state,
      value: transition.value,
      firing_id: noticeFiringId,
      source,
    })
    .execute()
  await removeOldHistory(db, ruleId, at)
  const notice = alertNotice(
    { ruleId, environment, name: settings.name, condition: settings.condition, channel },
    { siteId, timestamp: minute },
    { state: transition.to, value: transition.value, firingId: noticeFiringId, isNoData: state.state === 'no_data' },
  )
  const forWebhooks = noticeBody(notice, 'webhook')
  const notified = await queueForWebhooks(db, {
    siteId,
    environment,
    kind: 'alert',
    source,
    body: forWebhooks,
    now: at,
  })
  const isAlreadyNotified =
    notificationType === 'webhook' && notified.some((fingerprint) => fingerprint.equals(rule.targetFingerprint))
  if (isAlreadyNotified) return
  const delivery = { endpointId: ruleId, source, kind: 'alert', body: noticeBody(notice, notificationType) } as const
  if (notificationType === 'email' && (await isOutOfEmails(db, siteId, at))) {
    const error = `not sent: the rules of the site had ${alertLimits.emailsPerHourMax} e-mails to send within an hour`
    await queueFailed(db, delivery, error, at)
  } else {
    await queueDeliveries(db, [delivery], at)
  }
}
