import type { Selectable } from 'kysely'
import type { AlertState } from '@sluice/contracts/alert-state'
import type { AlertSettings, NotificationType } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import type { Db, Tables } from './tables.ts'

/** A rule with its state; its endpoint has the same id. Times are Unix ms. */
export interface AlertRule {
  ruleId: string
  siteId: string
  /** Environment of the key that created the rule. The rule measures the events of this environment. */
  environment: Environment
  settings: AlertSettings
  notificationType: NotificationType
  /** The caller's name for the target. */
  channel: string | null
  /** Encrypted target: the URL, or for `email` the JSON list of addresses; `targetFingerprint` is its keyed hash. */
  encryptedTarget: Buffer
  targetFingerprint: Buffer
  /** Increased by each change of a user. */
  revision: number
  state: AlertState
  firingId: string | null
  /** The last minute that was evaluated, or the minute of the rule's creation. */
  evaluatedMinute: number
  lastEvaluatedAt: number | null
  lastError: string | null
  createdAt: number
  updatedAt: number
}

/** A row of `selectRules`. */
export type RuleRow = Selectable<Tables['alert_rules']> &
  Pick<Selectable<Tables['endpoints']>, 'channel' | 'target_box' | 'target_fingerprint'>

/** Rules with the columns of their endpoints that `toRule` reads. */
export function selectRules(db: Db) {
  return db
    .selectFrom('alert_rules')
    .innerJoin('endpoints', 'endpoints.endpoint_id', 'alert_rules.rule_id')
    .selectAll('alert_rules')
    .select(['endpoints.channel', 'endpoints.target_box', 'endpoints.target_fingerprint'])
}

/** The columns of `alert_rules` that hold a rule's settings. */
export function settingsColumns({ condition, no_data, ...settings }: AlertSettings) {
  return { ...settings, no_data, condition: JSON.stringify(condition) }
}

/** Converts a row of `selectRules`; times become Unix ms. */
export function toRule(row: RuleRow): AlertRule {
  return {
    ruleId: row.rule_id,
    siteId: row.site_id,
    environment: row.environment,
    settings: {
      name: row.name,
      description: row.description,
      condition: row.condition,
      for: row.for,
      cooldown: row.cooldown,
      no_data: row.no_data,
      enabled: row.enabled,
    },
    notificationType: row.channel,
    channel: row.channel_name,
    encryptedTarget: row.target_box,
    targetFingerprint: row.target_fingerprint,
    revision: row.revision,
    state: {
      state: row.state,
      pendingSince: row.pending_since?.getTime() ?? null,
      trueAt: row.true_at?.getTime() ?? null,
      lastFiredAt: row.last_fired_at?.getTime() ?? null,
      lastValue: row.last_value,
    },
    firingId: row.firing_id,
    evaluatedMinute: row.evaluated_minute.getTime(),
    lastEvaluatedAt: row.last_evaluated_at?.getTime() ?? null,
    lastError: row.last_error,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime(),
  }
}
