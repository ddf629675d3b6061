import type { AlertOperator, AlertState, NoDataRule } from './alert-state.ts'
import type { Filter } from './conditions.ts'
import type { Page } from './paging.ts'
import type { Environment } from './scopes.ts'
import type { Metric } from './stats.ts'
import { dayMs } from './time-units.ts'

/** How the receiver of an alert is notified. */
export const notificationTypes = ['webhook', 'slack', 'email'] as const

export type NotificationType = (typeof notificationTypes)[number]

/** Limits of alert rules (docs/limits.md). Lengths count code points. */
export const alertLimits = {
  nameLengthMax: 128,
  descriptionLengthMax: 1_024,
  channelLengthMax: 128,
  urlLengthMax: 2_048,
  secretLengthMax: 256,
  /** Addresses of an e-mail. */
  recipientsMax: 20,
  windowMsMin: 60_000,
  windowMsMax: 30 * dayMs,
  forMsMax: 7 * dayMs,
  cooldownMsMax: 30 * dayMs,
  rulesPerSiteMax: 100,
  /** Tests of a site's e-mail rules in any hour: each sends up to `recipientsMax` e-mails through the operator's server. */
  emailTestsPerHourMax: 10,
  /**
   * E-mails of a site's rules in any hour, each to up to `recipientsMax` addresses. A firing and a resolution of each of
   * `rulesPerSiteMax` rules fit.
   */
  emailsPerHourMax: 300,
  /** A rule's history is kept for this long. */
  historyDays: 90,
  previewDays: 30,
  /** Points of a preview's series, and firings that it lists. */
  previewPointsMax: 1_000,
} as const

/** A metric and the threshold that it is compared with (docs/http-interface.md#alert-condition). */
export interface AlertCondition {
  metric: Metric
  operator: AlertOperator
  /** Percent for the percent operators, otherwise in the unit of the metric. */
  threshold: number
  /** `<n>m|h|d`, as sent. */
  window: string
  /** Only events of this type; always with `event_count_by_type`. */
  event_type?: string
  filter?: Filter
}

/** Where a notification goes. `channel` is the caller's name for it, which the notification repeats. */
export interface NotificationConfig {
  /** URL of a `webhook` or `slack` target. */
  url?: string
  /** Recipients of `email`. */
  to?: string[]
  channel?: string
  /** Secret that signs the deliveries of a `webhook`. Present in responses only where it was generated for them. */
  secret?: string
}

/** The settings of a rule (docs/http-interface.md#alert-record). Durations are as they were sent. */
export interface AlertSettings {
  name: string
  description: string | null
  condition: AlertCondition
  /** `<n>s|m|h|d`: how long the condition must be true. */
  for: string
  /** `<n>s|m|h|d`: how long after a firing the rule can't fire again. */
  cooldown: string
  no_data: NoDataRule
  enabled: boolean
}

/**
 * Defaults of the settings that the body of a rule or of a preview may leave out (docs/http-interface.md#alert-record).
 */
export const alertDefaults = { for: '0s', cooldown: '1h', no_data: 'zero' } as const satisfies Partial<AlertSettings>

/** POST /api/v1/alerts. */
export interface CreateAlertBody extends Partial<Omit<AlertSettings, 'description'>> {
  site_id: string
  name: string
  description?: string
  condition: AlertCondition
  notification_type: NotificationType
  notification_config: NotificationConfig
}

/** PUT …/{rule_id}: absent fields keep their value, those within `condition` and `notification_config` too. */
export interface UpdateAlertBody extends Partial<Omit<AlertSettings, 'condition'>> {
  site_id?: string
  /** Null removes an event type or a filter. */
  condition?: Partial<Omit<AlertCondition, 'event_type' | 'filter'>> & {
    event_type?: string | null
    filter?: Filter | null
  }
  notification_type?: NotificationType
  notification_config?: Omit<NotificationConfig, 'channel'> & { channel?: string | null }
}

/** POST /api/v1/alerts/preview: a rule that is not saved yet; only its condition matters. */
export interface PreviewAlertBody extends Partial<CreateAlertBody> {
  site_id: string
  condition: AlertCondition
  environment?: Environment | 'all'
}

/** The validated query of GET /api/v1/alerts. */
export interface ListAlertsQuery extends Page {
  site_id: string
}

/** A rule in responses; times are Unix ms. */
export interface AlertResource extends AlertSettings, Pick<AlertState, 'state'> {
  rule_id: string
  site_id: string
  /** Whose events are measured: those of the environment of the key that made the rule. */
  environment: Environment
  notification_type: NotificationType
  notification_config: NotificationConfig
  /** Since when the condition is true without the rule firing yet. */
  pending_since: number | null
  /** The firing under way, by the id that its notifications have. */
  firing_id: string | null
  last_value: number | null
  last_evaluated_at: number | null
  last_fired_at: number | null
  /** Why the last evaluation failed; null: it did not. */
  last_error: string | null
  created_at: number
  updated_at: number
}

/** The outcome of one notification to the rule's own target. */
export interface AlertNotification {
  status: 'pending' | 'succeeded' | 'failed'
  attempts: number
  /** Time and status of the last attempt, as deliveries of webhooks have them. */
  last_attempt_at: number | null
  last_status: number | null
  last_error: string | null
}

/** An entry of a rule's history: a transition or a test. */
export interface AlertHistoryEntry {
  /** End of the window that was evaluated, or the time of the test, Unix ms. */
  timestamp: number
  from: AlertState['state']
  to: AlertState['state']
  value: number
  firing_id: string | null
  /** True for the notification of POST …/{rule_id}/test, which changes no state. */
  test: boolean
  /** Null: a webhook of the site with the same URL got the notification, or the delivery was removed after 30 days. */
  notification: AlertNotification | null
}

/** `data` of POST /api/v1/alerts/preview (docs/http-interface.md#alert-preview). */
export interface AlertPreview {
  times_fired: number
  /** Time between two points that were evaluated, in ms. */
  step_ms: number
  /** The last ones, oldest first; `to` is null for a firing that lasts. */
  firings: { from: number; to: number | null; value: number }[]
  /** Points named by the ends of their windows, oldest first. */
  series: { timestamp: number; value: number }[]
  complete_until: number
}

/** `data` of an alert's delivery (docs/alerts.md). */
export interface AlertDelivery {
  alert_id: string
  rule_name: string
  metric_value: number
  state: 'firing' | 'resolved'
  metric: Metric
  operator: AlertOperator
  threshold: number
  window: string
  channel: string | null
  /** The same for a firing and its resolution. */
  firing_id: string
  /** Present for the notification of a test. */
  test?: true
}
