import joi from 'joi'
import { alertOperators, noDataRules } from '@sluice/contracts/alert-state'
import {
  type AlertCondition,
  type AlertHistoryEntry,
  alertLimits,
  type AlertNotification,
  type AlertPreview,
  type AlertResource,
  type CreateAlertBody,
  type ListAlertsQuery,
  type NotificationConfig,
  notificationTypes,
  type PreviewAlertBody,
  type UpdateAlertBody,
} from '@sluice/contracts/alerts'
import { eventLimits } from '@sluice/contracts/event-limits'
import { environments } from '@sluice/contracts/scopes'
import { metrics } from '@sluice/contracts/stats'
import { dayMs } from '@sluice/contracts/time-units'
import { durationMs } from '@sluice/runtime/durations'
import { enumText, nameText, nestedObject, text } from '@sluice/runtime/schemas'
import { completeUntilSchema } from './complete-until.ts'
import { filterOrNull, filterSchema } from './conditions.ts'
import { listOf, pageParameters } from './paging.ts'
import { parameterMessages } from './parameters.ts'
import { repeatedSiteId, siteId } from './sites.ts'
import { timeOrNull } from './times.ts'

interface DurationRange {
  units: string
  minMs: number
  maxMs: number
  example: string
}

/** A duration; the value stays the text that was sent. */
function durationText({ units, minMs, maxMs, example }: DurationRange): joi.StringSchema {
  const [days, unitList] = [
    maxMs / dayMs,
    Array.from(units)
      .join(', ')
      .replace(/, (.)$/, ' or $1'),
  ]
  return joi
    .string()
    .custom((value: string, helpers) => {
      const ms = units.includes(value.slice(-1)) ? durationMs(value) : undefined
      if (ms === undefined) return helpers.error('duration')
      return ms >= minMs && ms <= maxMs ? value : helpers.error('duration.range')
    })
    .meta({ pattern: `^[0-9]{1,9}[${units}]$` })
    .example(example)
    .messages({
      duration: `must be a whole number and a unit, ${unitList}, e.g. ${example}`,
      'duration.range': `must be from ${minMs === 0 ? '0s' : `${minMs / 60_000}m`} to ${days}d`,
    })
}

const { windowMsMin, windowMsMax, forMsMax, cooldownMsMax } = alertLimits

const window = durationText({ units: 'mhd', minMs: windowMsMin, maxMs: windowMsMax, example: '5m' }).description(
  'Length of the time that each evaluation measures: a whole number of `m`, `h` or `d`, from 1m to 30d.',
)

const name = nameText(alertLimits.nameLengthMax)
  .example('No purchases')
  .description('Name of the rule, which its notifications contain.')

const description = text(alertLimits.descriptionLengthMax).description('Explanation for other readers.')

const conditionFields = {
  metric: enumText(metrics).example('event_count').description('The metric to measure, as in statistics.'),
  operator: enumText(alertOperators)
    .example('greater_than')
    .description(
      'How the metric is compared with the threshold. The operators by percent compare its change from the preceding window.',
    ),
  threshold: joi
    .number()
    .example(100)
    .description('Threshold in the unit of the metric; with an operator by percent, a percentage of at least 0.'),
  window,
  event_type: text(eventLimits.eventTypeLengthMax).description(
    'Measures only events of this type; required with `event_count_by_type`.',
  ),
  filter: filterSchema.description('Measures only events that meet all of these conditions, as in statistics.'),
}

const condition = nestedObject(
  joi.object<AlertCondition>({
    ...conditionFields,
    metric: conditionFields.metric.required(),
    operator: conditionFields.operator.required(),
    threshold: conditionFields.threshold.required(),
    window: conditionFields.window.required(),
  }),
).description('The condition under which the rule fires.')

const notificationType = enumText(notificationTypes).example('webhook').description('Channel of the notifications.')

/** One address without a name. Its form alone is checked: whether it exists, the recipient's server decides. */
const addressLengthMax = 254
const addressPattern = /^[^\s<>@,;:"()[\]\\]+@[^\s<>@,;:"()[\]\\]+$/

const configFields = {
  url: text(alertLimits.urlLengthMax)
    .example('http://127.0.0.1:9000/')
    .description(
      'URL that receives the notifications of a `webhook` rule, or of a `slack` rule: an incoming webhook of Slack.',
    ),
  to: joi
    .array()
    .items(text(addressLengthMax).empty().pattern(addressPattern))
    .min(1)
    .max(alertLimits.recipientsMax)
    .unique()
    .messages({
      'array.min': 'must name at least one address',
      'array.unique': 'must name each address once',
      'array.base': 'must be a list of addresses',
      'string.pattern.base': 'must be an e-mail address',
    })
    .description('E-mail addresses that receive the notifications of an `email` rule.'),
  channel: text(alertLimits.channelLengthMax)
    .example('#ops')
    .description('A name for the target. Notifications contain it.'),
  // Empty is invalid here instead of absent: an unset variable in a script must cause an error.
  secret: text(alertLimits.secretLengthMax)
    .empty()
    .description(
      'Signs the deliveries of a `webhook` rule. If the site has a webhook with the same URL, the secret of that webhook signs them instead. If the field is left out, Sluice generates a secret and shows it only once.',
    ),
}

const notificationConfig = nestedObject(joi.object<NotificationConfig>(configFields)).description(
  'Target of the notifications.',
)

const behaviour = {
  for: durationText({ units: 'smhd', minMs: 0, maxMs: forMsMax, example: '5m' }).description(
    'How long the condition must be true before the rule fires; default: `0s`.',
  ),
  cooldown: durationText({ units: 'smhd', minMs: 0, maxMs: cooldownMsMax, example: '1h' }).description(
    'How long after it has fired the rule can’t fire again; default: `1h`.',
  ),
  no_data: enumText(noDataRules).description(
    'What a window without data means (without events that match; for metrics of sessions, without sessions that began in it). `zero`, the default: the value 0. `keep`: no change of the state. `alert`: the condition is true.',
  ),
  enabled: joi.boolean().description('`false`: the rule is not evaluated; default: `true`.'),
}

export const createAlertBody = joi.object<CreateAlertBody>({
  site_id: siteId.required(),
  name: name.required(),
  description,
  condition: condition.required(),
  notification_type: notificationType.required(),
  notification_config: notificationConfig.required(),
  ...behaviour,
})

export const updateAlertBody = joi.object<UpdateAlertBody>({
  site_id: repeatedSiteId,
  // A rule always has a name: `null` and `""` are invalid here instead of absent.
  name: name.empty(),
  description: description.empty().allow(null, '').description('`null` removes the value.'),
  condition: nestedObject(
    joi.object<NonNullable<UpdateAlertBody['condition']>>({
      ...conditionFields,
      event_type: conditionFields.event_type.empty().allow(null).description('`null` removes the value.'),
      filter: conditionFields.filter.empty().allow(null).description('`null` removes the value.'),
    }),
  ).description('Fields that are left out keep their value.'),
  notification_type: notificationType,
  notification_config: nestedObject(
    joi.object<NonNullable<UpdateAlertBody['notification_config']>>({
      ...configFields,
      url: configFields.url.empty(),
      channel: configFields.channel.empty().allow(null, '').description('`null` removes the value.'),
    }),
  ).description('Fields that are left out keep their value, unless `notification_type` is changed.'),
  ...behaviour,
})

export const previewAlertBody = joi.object<PreviewAlertBody>({
  site_id: siteId.required(),
  // Accepted so that a form may send the same body as for saving.
  name: text(alertLimits.nameLengthMax).description('The field is accepted and ignored.'),
  description: text(alertLimits.descriptionLengthMax).description('The field is accepted and ignored.'),
  condition: condition.required(),
  notification_type: notificationType.description('The field is accepted and ignored.'),
  notification_config: notificationConfig.description('The field is accepted and ignored.'),
  ...behaviour,
  environment: enumText([...environments, 'all']).description(
    'Environment whose events are read; default: that of the key.',
  ),
})

export const listAlertsQuery = joi
  .object<ListAlertsQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

const time = joi.number().integer().required()
const state = enumText(['ok', 'firing', 'no_data']).required()
const textOrNull = joi.string().allow(null).required()

export const alertResource = joi
  .object<AlertResource>({
    rule_id: joi.string().required(),
    site_id: joi.string().required(),
    name: joi.string().required(),
    description: textOrNull,
    environment: enumText(environments)
      .required()
      .description('Environment of the key that created the rule: only events of this environment are measured.'),
    condition: joi
      .object<AlertCondition>({
        metric: enumText(metrics).required(),
        operator: enumText(alertOperators).required(),
        threshold: joi.number().required(),
        window: joi.string().required(),
        event_type: joi.string(),
        filter: filterOrNull,
      })
      .required(),
    for: joi.string().required(),
    cooldown: joi.string().required(),
    no_data: enumText(noDataRules).required(),
    enabled: joi.boolean().required(),
    notification_type: enumText(notificationTypes).required(),
    notification_config: joi
      .object<NotificationConfig>({
        url: joi.string(),
        to: joi.array().items(joi.string()),
        channel: joi.string(),
        secret: joi
          .string()
          .description('Present only in the answer to the request that generated it. Store it: it is shown only once.'),
      })
      .required(),
    state: state.description('`no_data`: the rule fires because its window has no events.'),
    pending_since: timeOrNull.description(
      'Time since which the condition is true, while the rule does not fire yet, Unix ms; otherwise null.',
    ),
    firing_id: textOrNull.description(
      'Id of the present firing, as in its notifications. Null: the rule does not fire.',
    ),
    last_value: joi.number().allow(null).required(),
    last_evaluated_at: timeOrNull,
    last_fired_at: timeOrNull,
    last_error: textOrNull.description('Why the last evaluation failed. Null: it did not fail.'),
    created_at: time,
    updated_at: time,
  })
  .id('Alert')

/** `data` of the list. */
export const alertsResult = listOf('alerts', alertResource)

const historyEntry = joi.object<AlertHistoryEntry>({
  timestamp: time.description('End of the window that was evaluated, or the time of the test.'),
  from: state,
  to: state,
  value: joi.number().required(),
  firing_id: textOrNull,
  test: joi.boolean().required().description('True: the notification was only a test.'),
  notification: joi
    .object<AlertNotification>({
      status: enumText(['pending', 'succeeded', 'failed']).required(),
      attempts: joi.number().integer().required(),
      last_attempt_at: timeOrNull,
      last_status: joi.number().integer().allow(null).required(),
      last_error: textOrNull,
    })
    .allow(null)
    .required()
    .description(
      'Delivery of the notification. Null: a webhook of the site with the same URL received it, or it is older than 30 days.',
    ),
})

/** `data` of the list of a rule's history. */
export const alertHistoryResult = listOf('history', historyEntry)

/** `data` of a test. */
export const alertTestResult = joi.object<{ rule_id: string; notification_type: string }>({
  rule_id: joi.string().required(),
  notification_type: enumText(notificationTypes).required().description('Channel through which the test is sent.'),
})

const number = joi.number().required()

/** `data` of a preview. */
export const alertPreviewResult = joi.object<AlertPreview>({
  times_fired: joi
    .number()
    .integer()
    .required()
    .description('How often the rule would have fired in the last 30 days.'),
  step_ms: joi.number().integer().required().description('Time between two evaluations, in milliseconds.'),
  firings: joi
    .array()
    .items(joi.object({ from: time, to: timeOrNull, value: number }))
    .required()
    .description(
      `The last ${alertLimits.previewPointsMax} firings, oldest first. \`to\` is null while a firing lasts.`,
    ),
  series: joi
    .array()
    .items(joi.object({ timestamp: time, value: number }))
    .required()
    .description('The measured values. The `timestamp` of each is the end of its window.'),
  complete_until: completeUntilSchema,
})
