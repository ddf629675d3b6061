import joi from 'joi'
import { alertOperators } from '@sluice/contracts/alert-state'
import type { AlertDelivery } from '@sluice/contracts/alerts'
import { type EventSummary, topEventTypesMax } from '@sluice/contracts/event-summary'
import { metrics } from '@sluice/contracts/stats'
import type { DeliveryBody, DeliveryKind } from '@sluice/contracts/webhooks'
import { enumText } from '@sluice/runtime/schemas'
import { exportResource } from './exports.ts'
import { importResource } from './imports.ts'
import { deliveryFields } from './webhooks.ts'

const time = joi.number().integer().required()
const count = joi.number().integer().required()

const alert = joi.object<AlertDelivery>({
  alert_id: joi.string().required().description('The `rule_id` of the rule.'),
  rule_name: joi.string().required(),
  metric_value: joi.number().required(),
  state: enumText(['firing', 'resolved']).required(),
  metric: enumText(metrics).required(),
  operator: enumText(alertOperators).required(),
  threshold: joi.number().required(),
  window: joi.string().required(),
  channel: joi.string().allow(null).required().description('Name of the target. Null: the rule has none.'),
  firing_id: joi
    .string()
    .required()
    .description('Id of the firing, the same when the rule fires and when it resolves.'),
  test: joi.boolean().valid(true).description('Present only if the delivery is a test of the rule.'),
})

const summary = joi.object<EventSummary>({
  period_start: time.description('Unix ms, inclusive.'),
  period_end: time.description('Unix ms, exclusive.'),
  event_count: count,
  unique_users: count,
  unique_sessions: count,
  bounce_rate: joi.number().required().description('Percent.'),
  top_event_types: joi
    .array()
    .items(joi.object({ event_type: joi.string().required(), count }))
    .max(topEventTypesMax)
    .required()
    .description('The most frequent types, the most frequent one first.'),
})

const test = joi.object<{ webhook_id: string; message: string }>({
  webhook_id: joi.string().required(),
  message: joi.string().required(),
})

/** One kind of delivery, for the document. */
interface Delivery {
  /** Name of the operation of the receiver. */
  id: string
  summary: string
  /** Who gets it. */
  receivers: string
  body: joi.ObjectSchema<DeliveryBody>
}

/** What Sluice sends to the receivers of webhooks (docs/http-interface.md#webhook-deliveries). */
export const deliveries: Readonly<Record<DeliveryKind, Delivery>> = {
  alert: delivery('alert', alert, {
    name: 'Alert',
    summary: 'An alert rule has fired or resolved, or is tested.',
    receivers:
      'Sent to each active webhook of the site whose `events` name `alert`, and to the `url` of a rule whose `notification_type` is `webhook`.',
  }),
  event_summary: delivery('event_summary', summary, {
    name: 'EventSummary',
    summary: 'Statistics of an hour or a day that has ended, in the site’s time zone.',
  }),
  'import.completed': delivery('import.completed', importResource, {
    name: 'ImportCompleted',
    summary: 'An import is completed.',
  }),
  'export.completed': delivery('export.completed', exportResource, {
    name: 'ExportCompleted',
    summary: 'An export, or a run of a scheduled one, is completed.',
  }),
  'webhook.test': delivery('webhook.test', test, {
    name: 'WebhookTest',
    summary: 'A webhook is tested.',
    receivers: 'Sent to the webhook that `testWebhook` names, independently of its `events` and `active`.',
  }),
}

function delivery(
  kind: DeliveryKind,
  data: joi.ObjectSchema,
  {
    name,
    summary,
    receivers = `Sent to each active webhook of the site whose \`events\` name \`${kind}\`.`,
  }: { name: string; summary: string; receivers?: string },
): Delivery {
  const eventType = joi.string().valid(kind).required()
  const body = joi
    .object<DeliveryBody>({ event_type: eventType, ...deliveryFields, data: data.required() })
    .id(`${name}Delivery`)
  return { id: `receive${name}`, summary, receivers, body }
}
