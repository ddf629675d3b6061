import joi from 'joi'
import { environments } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import {
  type AttemptResource,
  type CreateWebhookBody,
  type DeliveryBody,
  deliveryKinds,
  type DeliveryResource,
  deliveryStatuses,
  type DeliveryWithPayload,
  type ListDeliveriesQuery,
  type ListWebhooksQuery,
  type NewWebhookResource,
  type RecoverBody,
  type RotateSecretBody,
  summaryIntervals,
  type UpdateWebhookBody,
  webhookLimits,
  type WebhookResource,
} from '@sluice/contracts/webhooks'
import { duration, enumText, text, time } from '@sluice/runtime/schemas'
import { listOf, pageParameters } from './paging.ts'
import { parameterMessages } from './parameters.ts'
import { repeatedSiteId, siteId } from './sites.ts'
import { timeOrNull } from './times.ts'

const overlapMsMax = 90 * dayMs

const url = text(webhookLimits.urlLengthMax)
  .example('http://127.0.0.1:9000/')
  .description('Where deliveries are sent, by POST. Private addresses need SLUICE_WEBHOOK_ALLOWED_NETWORKS.')

const events = joi
  .array()
  .items(enumText(deliveryKinds))
  .min(1)
  .unique()
  .messages({ 'array.min': 'must name at least one kind', 'array.unique': 'must name each kind once' })
  .example(['alert', 'event_summary'])
  .description('The kinds of deliveries that it gets.')

const settings = {
  active: joi
    .boolean()
    .description('False: it gets nothing. True: it gets deliveries, also after it was switched off.'),
  secret: text(webhookLimits.secretLengthMax)
    .empty()
    .description('Signs deliveries; at least 16 characters are advised. No response shows it.'),
  summary_interval: joi
    .string()
    .valid(...summaryIntervals)
    .description('How often it gets an `event_summary`, in the site’s time zone.'),
}

export const createWebhookBody = joi.object<CreateWebhookBody>({
  site_id: siteId.required(),
  url: url
    .required()
    .description(
      'Where deliveries are sent, by POST. Private addresses need SLUICE_WEBHOOK_ALLOWED_NETWORKS. Of several webhooks with one URL, the oldest that is on gets each delivery, the others nothing.',
    ),
  events: events.required(),
  ...settings,
  secret: settings.secret.description(
    'Signs deliveries; at least 16 characters are advised. Left out: one is made, which this response alone shows.',
  ),
})

export const updateWebhookBody = joi.object<UpdateWebhookBody>({
  site_id: repeatedSiteId,
  url: url.empty(),
  events,
  ...settings,
})

export const rotateSecretBody = joi.object<RotateSecretBody>({
  overlap: duration(overlapMsMax)
    .default(0)
    .meta({ default: '0s' })
    .example('1d')
    .description('How long deliveries are signed with the old secret as well.'),
})

export const recoverBody = joi.object<RecoverBody>({
  since: time.required().example(1_767_225_600_000).description('Unix ms: deliveries that were queued from then on.'),
})

export const listWebhooksQuery = joi
  .object<ListWebhooksQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

export const listDeliveriesQuery = joi
  .object<ListDeliveriesQuery>({
    status: enumText(deliveryStatuses).empty('').description('Only those of this status.'),
    ...pageParameters,
  })
  .prefs({ convert: true })
  .messages(parameterMessages)

const webhookFields = {
  webhook_id: joi.string().required(),
  site_id: joi.string().required(),
  url: joi.string().allow('').required(),
  events: joi.array().items(enumText(deliveryKinds)).required(),
  active: joi.boolean().required(),
  summary_interval: joi
    .string()
    .valid(...summaryIntervals)
    .required(),
  environment: joi
    .string()
    .valid(...environments)
    .required()
    .description('Environment of the key that made it: the webhook gets deliveries about this environment.'),
  created_at: joi.number().integer().required(),
  updated_at: joi.number().integer().required(),
  failing_since: timeOrNull.description(
    'Since when no attempt has succeeded; null: the last one did, or there was none.',
  ),
  disabled_at: timeOrNull.description('When it was switched off because its receiver failed; null: it is not.'),
  disabled_reason: joi.string().allow(null).required(),
  previous_secret_expires_at: timeOrNull.description('Until when the secret before signs too; null: there is none.'),
}

export const webhookResource = joi.object<WebhookResource>(webhookFields).id('Webhook')

/** The response to a creation or a rotation, the only one that contains a secret. */
export const newWebhookResource = joi
  .object<NewWebhookResource>({
    ...webhookFields,
    secret: joi.string().description('The secret that was made: keep it, it is shown this once.'),
  })
  .id('NewWebhook')

export const webhooksResult = listOf('webhooks', webhookResource)

const attempt = joi
  .object<AttemptResource>({
    at: joi.number().integer().required(),
    status: joi.number().integer().allow(null).required().description('Status of the response; null: there was none.'),
    latency_ms: joi.number().integer().required(),
    response: joi
      .string()
      .allow(null, '')
      .required()
      .description('The beginning of the response’s body, up to 4 KiB; in lists up to 200 characters.'),
    error: joi.string().allow(null).required().description('What went wrong; null: nothing.'),
  })
  .id('DeliveryAttempt')

const deliveryFields = {
  delivery_id: joi.string().required().description('The header `x-svc-delivery` of every attempt.'),
  event_type: joi
    .string()
    .valid(...deliveryKinds)
    .required(),
  status: joi
    .string()
    .valid(...deliveryStatuses)
    .required(),
  created_at: joi.number().integer().required(),
  next_attempt_at: timeOrNull.description('Null: no attempt follows by itself.'),
  attempts: joi.array().items(attempt).required().description('The last 100, ascending.'),
}

const deliveryResource = joi.object<DeliveryResource>(deliveryFields).id('Delivery')

export const deliveryWithPayload = joi
  .object<DeliveryWithPayload>({
    ...deliveryFields,
    payload: joi
      .object<DeliveryBody>({
        event_type: joi
          .string()
          .valid(...deliveryKinds)
          .required(),
        timestamp: joi.number().integer().required(),
        site_id: joi.string().required(),
        data: joi.object().unknown().required().id('DeliveryData').description('What happened, by `event_type`.'),
      })
      .required()
      .description('What the receiver gets.'),
  })
  .id('DeliveryWithPayload')

export const deliveriesResult = listOf('deliveries', deliveryResource)

/** `data` of a test and a replay. */
export const queuedDelivery = joi.object<{ delivery_id: string }>({ delivery_id: joi.string().required() })

/** `data` of a recovery. */
export const recoverResult = joi.object<{ recovered: number }>({
  recovered: joi.number().integer().required().description('Deliveries that are sent again.'),
})
