import { type AlertOperator, comparesWindows } from './alert-state.ts'
import type { AlertDelivery, AlertSettings, NotificationType } from './alerts.ts'
import type { Environment } from './scopes.ts'
import { isSessionMetric, type Metric } from './stats.ts'

/** The content of a notification. Times are Unix ms. */
export interface AlertNotice {
  siteId: string
  timestamp: number
  data: AlertDelivery
  rule: NotifiedRule
  /** Whether the rule fires because its window has no data, which only texts for people say. */
  isNoData: boolean
}

/** The parts of a rule that its notifications name. */
export interface NotifiedRule extends Pick<AlertSettings, 'name' | 'condition'> {
  ruleId: string
  environment: Environment
  channel: string | null
}

/** Builds the notification of a rule that fires or resolves, or of a test. */
export function alertNotice(
  rule: NotifiedRule,
  { siteId, timestamp }: Pick<AlertNotice, 'siteId' | 'timestamp'>,
  event: { state: AlertDelivery['state']; value: number; firingId: string; isNoData?: boolean; isTest?: boolean },
): AlertNotice {
  const { ruleId, name, condition, channel } = rule
  return {
    siteId,
    timestamp,
    rule,
    isNoData: event.isNoData === true,
    data: {
      alert_id: ruleId,
      rule_name: name,
      metric_value: event.value,
      state: event.state,
      metric: condition.metric,
      operator: condition.operator,
      threshold: condition.threshold,
      window: condition.window,
      channel,
      firing_id: event.firingId,
      ...(event.isTest === true ? { test: true as const } : {}),
    },
  }
}

/**
 * The body that is stored for a notice: JSON of what webhooks and Slack are sent; for e-mail JSON of subject and text.
 */
export function noticeBody(notice: AlertNotice, type: NotificationType): Uint8Array {
  const body = type === 'webhook' ? webhookBody(notice) : type === 'slack' ? slackBody(notice) : emailBody(notice)
  return new TextEncoder().encode(JSON.stringify(body))
}

/** The delivery of a webhook (docs/http-interface.md#alert-delivery). */
export function webhookBody({ siteId, timestamp, data }: AlertNotice) {
  return { event_type: 'alert' as const, timestamp, site_id: siteId, data }
}

/**
 * The body of a Slack incoming webhook. Names that users chose are escaped, so that they are no mentions or links.
 * Servers that let a webhook choose its channel take `#channel` and `@user`; the text names any other channel.
 */
export function slackBody(notice: AlertNotice): { text: string; channel?: string } {
  const { channel } = notice.data
  const sign = notice.data.state === 'firing' ? ':red_circle:' : ':large_green_circle:'
  const title = escapeSlack(withinBold(titleOf(notice)))
  const text = `${sign} *${title}*\n${escapeSlack(sentenceOf(notice))}\n${timeLineOf(notice)}`
  if (channel === null) return { text }
  return /^[#@]\S+$/.test(channel) ? { text, channel } : { text: `${text}\n${escapeSlack(channelLineOf(channel))}` }
}

/** An e-mail; the subject is one line, whatever characters a rule's name has. */
export function emailBody(notice: AlertNotice): { subject: string; text: string } {
  const { alert_id: ruleId, firing_id: firingId, channel } = notice.data
  return {
    subject: oneLine(titleOf(notice)),
    text: [
      sentenceOf(notice),
      '',
      `Site: ${notice.siteId}`,
      timeLineOf(notice),
      ...(channel === null ? [] : [channelLineOf(channel)]),
      `Rule: ${ruleId}`,
      `Firing: ${firingId}`,
      '',
    ].join('\n'),
  }
}

function titleOf({ siteId, data, rule }: AlertNotice): string {
  const prefix = data.test === true ? 'Test: ' : ''
  const site = rule.environment === 'dev' ? `${siteId}, dev` : siteId
  return `${prefix}${data.rule_name} ${data.state === 'firing' ? 'is firing' : 'is resolved'} (${site})`
}

const operatorTexts: Readonly<Record<AlertOperator, string>> = {
  greater_than: 'greater than',
  greater_than_or_equal: 'at least',
  less_than: 'less than',
  less_than_or_equal: 'at most',
  equals: 'equal to',
  not_equals: 'other than',
  increases_by_percent: 'an increase by',
  decreases_by_percent: 'a decrease by',
}

/** What follows a number of these metrics. */
const units: Readonly<Partial<Record<Metric, string>>> = {
  avg_session_duration: ' s',
  bounce_rate: ' %',
  conversion_rate: ' %',
}

function sentenceOf({ data, rule, isNoData }: AlertNotice): string {
  const { metric, metric_value: value, window, operator, threshold } = data
  const unit = units[metric] ?? ''
  if (isNoData) {
    const missing = isSessionMetric(metric)
      ? `No session that matches began within ${window}`
      : `No event matched over ${window}`
    return `${missing}; the rule fires when none does.`
  }
  const limit = comparesWindows(operator)
    ? `${operatorTexts[operator]} ${threshold} % against the ${window} before`
    : `${operatorTexts[operator]} ${threshold}${unit}`
  const { event_type: eventType, filter = [] } = rule.condition
  const measured = eventType === undefined ? metric : `${metric} of "${oneLine(eventType)}"`
  const filtered = filter.length === 0 ? '' : " of the events that match the rule's filter"
  return `${measured}${filtered} was ${value}${unit} over ${window}; the condition is ${limit}.`
}

/** When the rule changed, because a late attempt can arrive after the notice of a later change. */
function timeLineOf({ timestamp }: AlertNotice): string {
  return `Time: ${new Date(timestamp).toISOString()}`
}

function channelLineOf(channel: string): string {
  return `Channel: ${oneLine(channel)}`
}

/**
 * A text that can stand between two `*`, which mean bold: Slack has no escape for a `*`, and bold text ends with its
 * line. A character that looks like `*` replaces each `*`.
 */
function withinBold(text: string): string {
  return oneLine(text).replaceAll('*', '\u2217')
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
}

/** Slack's three control characters (api.slack.com/reference/surfaces/formatting#escaping). */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
