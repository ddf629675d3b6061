import type { AlertOperator, NoDataRule } from '@sluice/contracts/alert-state'
import type {
  AlertCondition,
  AlertResource,
  CreateAlertBody,
  NotificationType,
  UpdateAlertBody,
} from '@sluice/contracts/alerts'
import type { Filter } from '@sluice/contracts/conditions'
import type { Metric } from '@sluice/contracts/stats'
import { changedFields, changedMembers } from '../../api/changed-fields.ts'
import { draftOf, type DurationDraft, durationOf } from './duration-field.tsx'
import { texts } from './messages.ts'
import { percentOperators } from './operators.ts'

/** A rule while it is edited. */
export interface Draft {
  name: string
  description: string
  metric: Metric
  eventType: string
  operator: AlertOperator
  threshold: string
  window: DurationDraft
  for: DurationDraft
  cooldown: DurationDraft
  noData: NoDataRule
  filter: Filter
  type: NotificationType
  url: string
  to: string
  channel: string
  isEnabled: boolean
}

/** The draft of a new rule, on a metric and with conditions of the view. */
export const newDraft = (metric: Metric, filter: Filter): Draft => ({
  name: '',
  description: '',
  metric,
  eventType: '',
  operator: 'less_than',
  threshold: '1',
  window: draftOf('1h'),
  for: draftOf('0m'),
  cooldown: draftOf('1h'),
  noData: 'zero',
  filter,
  type: 'webhook',
  url: '',
  to: '',
  channel: '',
  isEnabled: true,
})

/** The draft of a rule that exists. */
export function draftOfRule(rule: AlertResource): Draft {
  const { condition, notification_config: config } = rule
  return {
    name: rule.name,
    description: rule.description ?? '',
    metric: condition.metric,
    eventType: condition.event_type ?? '',
    operator: condition.operator,
    threshold: String(condition.threshold),
    window: draftOf(condition.window),
    for: draftOf(rule.for),
    cooldown: draftOf(rule.cooldown),
    noData: rule.no_data,
    filter: condition.filter ?? [],
    type: rule.notification_type,
    url: config.url ?? '',
    to: config.to?.join(', ') ?? '',
    channel: config.channel ?? '',
    isEnabled: rule.enabled,
  }
}

/** Whether anything differs between two drafts. */
export const isChanged = (draft: Draft, from: Draft): boolean => Object.keys(changedFields(draft, from)).length > 0

/** The threshold as a number; undefined while it is none. */
const thresholdOf = ({ threshold }: Draft): number | undefined =>
  threshold.trim() === '' || !Number.isFinite(Number(threshold)) ? undefined : Number(threshold)

/** The threshold as a value of the metric, where it is one. */
export const lineOf = (draft: Draft): number | undefined =>
  percentOperators.includes(draft.operator) ? undefined : thresholdOf(draft)

/** The condition of a draft; undefined while it is not complete. */
function conditionOf(draft: Draft): AlertCondition | undefined {
  const threshold = thresholdOf(draft)
  const window = durationOf(draft.window)
  const eventType = draft.eventType.trim()
  if (threshold === undefined || window === undefined) return undefined
  if (draft.metric === 'event_count_by_type' && eventType === '') return undefined
  return {
    metric: draft.metric,
    operator: draft.operator,
    threshold,
    window,
    ...(eventType === '' ? {} : { event_type: eventType }),
    ...(draft.filter.length === 0 ? {} : { filter: draft.filter }),
  }
}

const addressesOf = (text: string) => text.split(/[\s,;]+/).filter((each) => each !== '')

/** The problems of the draft, by the name of the field in the interface. */
export function problemsOf(draft: Draft): Readonly<Record<string, string | undefined>> {
  const isUrl = /^https?:\/\/./i.test(draft.url.trim())
  const wrong = (duration: DurationDraft) => (durationOf(duration) === undefined ? texts.wrongDuration : undefined)
  return {
    name: draft.name.trim() === '' ? texts.missingName : undefined,
    'condition.event_type':
      draft.metric === 'event_count_by_type' && draft.eventType.trim() === '' ? texts.missingEventType : undefined,
    'condition.threshold': thresholdOf(draft) === undefined ? texts.missingThreshold : undefined,
    'condition.window': wrong(draft.window),
    for: wrong(draft.for),
    cooldown: wrong(draft.cooldown),
    'notification_config.url': draft.type !== 'email' && !isUrl ? texts.missingUrl : undefined,
    'notification_config.to':
      draft.type === 'email' && addressesOf(draft.to).length === 0 ? texts.missingTo : undefined,
  }
}

/** The fields of a draft that decide when the rule fires; undefined while they are not complete. */
export function draftTrigger(
  draft: Draft,
): Required<Pick<CreateAlertBody, 'condition' | 'for' | 'cooldown' | 'no_data'>> | undefined {
  const condition = conditionOf(draft)
  const [forDuration, cooldown] = [durationOf(draft.for), durationOf(draft.cooldown)]
  if (condition === undefined || forDuration === undefined || cooldown === undefined) return undefined
  return { condition, for: forDuration, cooldown, no_data: draft.noData }
}

/** The body of POST /alerts; undefined while something is wrong. */
export function bodyOf(draft: Draft, siteId: string): (CreateAlertBody & { description: string }) | undefined {
  const trigger = draftTrigger(draft)
  if (trigger === undefined) return undefined
  if (Object.values(problemsOf(draft)).some((problem) => problem !== undefined)) return undefined
  return {
    site_id: siteId,
    name: draft.name.trim(),
    description: draft.description.trim(),
    ...trigger,
    enabled: draft.isEnabled,
    notification_type: draft.type,
    notification_config: {
      ...(draft.type === 'email' ? { to: addressesOf(draft.to) } : { url: draft.url.trim() }),
      ...(draft.channel.trim() === '' ? {} : { channel: draft.channel.trim() }),
    },
  }
}

/**
 * The body of PUT /alerts/{rule_id}: what differs from the rule that was opened, of its condition and its target too;
 * null takes away what was emptied. Another type of notifications has a configuration of its own, which is sent whole.
 * Undefined while something is wrong.
 */
export function changesOf(draft: Draft, opened: AlertResource): UpdateAlertBody | undefined {
  const body = bodyOf(draft, opened.site_id)
  if (body === undefined) return undefined
  const { condition, notification_config: config, description, ...settings } = body
  const noCondition = { event_type: null, filter: null }
  const noConfig = { channel: null }
  return {
    ...changedFields({ ...settings, description: description === '' ? null : description }, opened),
    ...changedMembers('condition', { ...noCondition, ...condition }, { ...noCondition, ...opened.condition }),
    ...(draft.type === opened.notification_type
      ? changedMembers(
          'notification_config',
          { ...noConfig, ...config },
          { ...noConfig, ...opened.notification_config },
        )
      : { notification_config: config }),
  }
}
