import type { ColumnType, Generated } from 'kysely'
import type { AlertState, NoDataRule } from '@sluice/contracts/alert-state'
import type { AlertCondition } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import type { Channel, DeliveryKind, DeliveryStatus, SummaryInterval } from '@sluice/contracts/webhooks'
import type { Defaulted, LeaseColumns } from './table-columns.ts'

/** Transitions, and tests. */
export interface AlertHistoryTable {
  rule_id: string
  /** The end of the window that was evaluated; of a test its time. */
  minute: Date
  is_test: Defaulted<boolean>
  from_state: AlertState['state']
  to_state: AlertState['state']
  value: number
  firing_id: string | null
  /** The `source` of its deliveries. */
  source: string
}

/** Times are ends of windows, which are whole minutes, except for the last four. */
export interface AlertRulesTable {
  /** The rule's own endpoint has the same id. */
  rule_id: string
  seq: Generated<string>
  site_id: string
  environment: Environment
  name: string
  description: string | null
  /** Written as JSON text. */
  condition: ColumnType<AlertCondition, string, string>
  /** Durations as they were sent. */
  for: string
  cooldown: string
  no_data: NoDataRule
  enabled: boolean
  /** The caller's name for the target, which notifications repeat. */
  channel_name: string | null
  /** Raised by each change of a user, so that what was measured for the rule before counts no more. */
  revision: Defaulted<number>
  state: Defaulted<AlertState['state']>
  pending_since: Defaulted<Date | null>
  true_at: Defaulted<Date | null>
  /** Null: the rule does not fire. */
  firing_id: Defaulted<string | null>
  last_fired_at: Defaulted<Date | null>
  last_value: Defaulted<number | null>
  /** The last minute that was evaluated, or the one of the creation: earlier ones never will be. */
  evaluated_minute: Date
  last_evaluated_at: Defaulted<Date | null>
  last_error: Defaulted<string | null>
  created_at: Date
  updated_at: Date
}

/** The rules of a site as one job, which evaluates them. */
export interface AlertSitesTable extends LeaseColumns {
  site_id: string
  status: Defaulted<string>
  /** The last minute for which all of the site's rules were evaluated. */
  judged_minute: Date
}

export interface AttemptsTable {
  delivery_id: string
  /** From 1. */
  n: number
  /** When it began. */
  at: Date
  /** Status of the response; null: there was none. */
  status: number | null
  latency_ms: number
  response: string | null
  /** Null: the attempt succeeded. */
  error: string | null
}

/** A delivery is also the job of the worker that sends it; what a take sets differs from other jobs (deliveries.ts). */
export interface DeliveriesTable {
  delivery_id: string
  endpoint_id: string
  /** Names the occurrence that is reported, once for each endpoint, e.g. `import:imp_…`. */
  source: string
  kind: DeliveryKind
  /** The bytes that are sent; for e-mail JSON of `{subject, text}`. */
  body: Buffer
  status: DeliveryStatus
  /**
   * A user requested the delivery (a test, a replay, a recovery): one attempt is made even at an endpoint that is off.
   */
  requested: Defaulted<boolean>
  /** Attempts so far: the number of the last row of `attempts`. */
  attempts: Defaulted<number>
  created_at: Date
  /** When the next attempt is due; null: none follows. */
  due_at: Defaulted<Date | null>
  lease_until: Defaulted<Date | null>
  lease: Generated<string>
  /** Attempts since the schedule began, or began anew by a replay. */
  tries: Defaulted<number>
  /**
   * Fingerprints of the recipients of an e-mail that need no further attempt, while others do: addresses are only
   * stored encrypted. With another SLUICE_SECRETS_KEY they match no recipient, and all get the e-mail again.
   */
  settled_recipients: Defaulted<Buffer[]>
}

/** Where deliveries go: a webhook, or the notifications of one alert rule. */
export interface EndpointsTable {
  /** The id of the webhook or of the rule. */
  endpoint_id: string
  /** The order of creation. A bigint. */
  seq: Generated<string>
  site_id: string
  owner: 'webhook' | 'alert_rule'
  channel: Channel
  /**
   * Encrypted target (packages/runtime/secret-cipher.ts): the URL, or for `email` the JSON list of addresses; and its
   * keyed hash.
   */
  target_box: Buffer
  target_fingerprint: Buffer
  /** Null where nothing is signed, or with the secret of a webhook. */
  secret_box: Defaulted<Buffer | null>
  /** The secret before the last rotation, with which deliveries are signed as well until then. */
  previous_secret_box: Defaulted<Buffer | null>
  previous_secret_until: Defaulted<Date | null>
  /** The kinds that it takes; a rule's own endpoint takes what the rule sends it. */
  events: DeliveryKind[]
  active: boolean
  summary_interval: Defaulted<SummaryInterval | null>
  /** The key that made it, whose environment it has. */
  key_id: string
  environment: Environment
  /** Since when no attempt has succeeded, failed attempts since then, and deliveries that ran out of attempts. */
  failing_since: Defaulted<Date | null>
  failures_in_row: Defaulted<number>
  exhausted: Defaulted<number>
  disabled_at: Defaulted<Date | null>
  disabled_reason: Defaulted<string | null>
  created_at: Date
  updated_at: Date
}

export interface SummariesTable extends LeaseColumns {
  /** Environment, interval and site. */
  summary_id: string
  site_id: string
  environment: Environment
  summary_interval: SummaryInterval
  status: Defaulted<'active'>
  since: Date
  /** Start of the next period; null before the first one. */
  next_start: Defaulted<Date | null>
}
