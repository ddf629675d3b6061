import type { ColumnType, Generated } from 'kysely'
import type { AlertState, NoDataRule } from '@sluice/contracts/alert-state'
import type { AlertCondition } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import type { Channel, DeliveryKind, DeliveryStatus, SummaryInterval } from '@sluice/contracts/webhooks'
import type { Defaulted, LeaseColumns } from './table-columns.ts'

/** Transitions, and tests. */
export interface AlertHistoryTable {
  rule_id: string
  /** The end of the window that was evaluated; for a test, the time of the test. */
  minute: Date
  is_test: Defaulted<boolean>
  from_state: AlertState['state']
  to_state: AlertState['state']
  value: number
  firing_id: string | null
  /** The `source` of its deliveries. */
  source: string
}

/** The tests of e-mail rules that count for the limit of their site, also when the rule is deleted. */
export interface EmailTestsTable {
  site_id: string
  rule_id: string
  at: Date
}

/** Times are ends of windows, which are whole minutes. `last_evaluated_at`, `created_at` and `updated_at` are exact. */
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
  /** Durations in the form in which the user sent them. */
  for: string
  cooldown: string
  no_data: NoDataRule
  enabled: boolean
  /** The user's name for the target, which notifications contain. */
  channel_name: string | null
  /** Increased by each change of a user. Measurements for an earlier revision then have no effect. */
  revision: Defaulted<number>
  state: Defaulted<AlertState['state']>
  pending_since: Defaulted<Date | null>
  true_at: Defaulted<Date | null>
  /** Null when the rule does not fire. */
  firing_id: Defaulted<string | null>
  last_fired_at: Defaulted<Date | null>
  last_value: Defaulted<number | null>
  /** The last minute that was evaluated, or the minute of the creation. Earlier minutes are never evaluated. */
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
  /** When the attempt began. */
  at: Date
  /** Status of the response; null without a response. */
  status: number | null
  latency_ms: number
  response: string | null
  /** Null: the attempt succeeded. */
  error: string | null
}

/** A delivery is also the job of the worker that sends it. Its take differs from that of other jobs (delivery-queue.ts). */
export interface DeliveriesTable {
  delivery_id: string
  endpoint_id: string
  /** Identifies the occurrence that is reported, for example `import:imp_…`. Unique for each endpoint. */
  source: string
  kind: DeliveryKind
  /** The bytes that are sent. For e-mail, JSON of `{subject, text}`. */
  body: Buffer
  status: DeliveryStatus
  /** A user requested the delivery (a test, a replay, a recovery): one attempt is made even if the endpoint is off. */
  requested: Defaulted<boolean>
  /** Attempts so far: the number of the last row of `attempts`. */
  attempts: Defaulted<number>
  created_at: Date
  /** When the next attempt is due; null when there is none. */
  due_at: Defaulted<Date | null>
  lease_until: Defaulted<Date | null>
  lease: Generated<string>
  /** Attempts since the schedule began, or since a replay restarted it. */
  tries: Defaulted<number>
  /**
   * Fingerprints of the recipients of an e-mail that need no further attempt, while other recipients do. They are
   * fingerprints because addresses are only stored encrypted. With another SLUICE_SECRETS_KEY they match no recipient,
   * and all recipients get the e-mail again.
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
   * Encrypted target (packages/runtime/secret-cipher.ts): the URL, or for `email` the JSON list of addresses.
   * `target_fingerprint` is its keyed hash.
   */
  target_box: Buffer
  target_fingerprint: Buffer
  /** Null when nothing is signed, or when the secret of a webhook signs. */
  secret_box: Defaulted<Buffer | null>
  /** The secret before the last rotation. Deliveries are signed with it too until `previous_secret_until`. */
  previous_secret_box: Defaulted<Buffer | null>
  previous_secret_until: Defaulted<Date | null>
  /** The kinds of deliveries that the endpoint takes. A rule's own endpoint takes everything that the rule sends. */
  events: DeliveryKind[]
  active: boolean
  summary_interval: Defaulted<SummaryInterval | null>
  /** The key that created the endpoint. The endpoint has the environment of this key. */
  key_id: string
  environment: Environment
  /**
   * The time of the first failed attempt since the last success, the number of failed attempts since then, and the
   * number of deliveries that have no attempts left.
   */
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
