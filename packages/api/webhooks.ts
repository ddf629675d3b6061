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
  .description(
    'URL to which deliveries are sent, by POST. Private addresses must be allowed by SLUICE_WEBHOOK_ALLOWED_NETWORKS.',
  )

const events = joi
  .array()
  .items(enumText(deliveryKinds))
  .min(1)
  .unique()
  .messages({ 'array.min': 'must name at least one kind', 'array.unique': 'must name each kind once' })
  .example(['alert', 'event_summary'])
  .description('The kinds of deliveries that the webhook receives.')

const settings = {
  active: joi
    .boolean()
    .description(
      'False: the webhook receives no deliveries. True: it receives deliveries; a webhook that was switched off is switched on again.',
    ),
  secret: text(webhookLimits.secretLengthMax)
    .empty()
    .description('Secret that signs deliveries; at least 16 characters are recommended. No answer contains it.'),
  summary_interval: enumText(summaryIntervals).description(
    'How often the webhook receives an `event_summary`, in the site’s time zone.',
  ),
}

export const createWebhookBody = joi.object<CreateWebhookBody>({
  site_id: siteId.required(),
  url: url
    .required()
    .description(
      'URL to which deliveries are sent, by POST. Private addresses must be allowed by SLUICE_WEBHOOK_ALLOWED_NETWORKS. If several webhooks have the same URL, only the oldest active one receives each delivery.',
    ),
  events: events.required(),
  ...settings,
  secret: settings.secret.description(
    'Secret that signs deliveries; at least 16 characters are recommended. If it is left out, Sluice generates one, which only this answer contains.',
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
    .description('How long the old secret signs deliveries, too.'),
})

export const recoverBody = joi.object<RecoverBody>({
  since: time
    .required()
    .example(1_767_225_600_000)
    .description('Unix ms. Deliveries that were queued at this time or later are sent again.'),
})

export const listWebhooksQuery = joi
  .object<ListWebhooksQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

export const listDeliveriesQuery = joi
  .object<ListDeliveriesQuery>({
    status: enumText(deliveryStatuses).empty('').description('Lists only deliveries with this status.'),
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
  summary_interval: enumText(summaryIntervals).required(),
  environment: enumText(environments)
    .required()
    .description('Environment of the key that created the webhook, which receives deliveries about this environment.'),
  created_at: joi.number().integer().required(),
  updated_at: joi.number().integer().required(),
  failing_since: timeOrNull.description(
    'Time since which no attempt has succeeded, Unix ms. Null: the last attempt succeeded, or there was none.',
  ),
  disabled_at: timeOrNull.description(
    'Time at which the webhook was switched off because its receiver failed, Unix ms. Null: it was not.',
  ),
  disabled_reason: joi.string().allow(null).required(),
  previous_secret_expires_at: timeOrNull.description(
    'Time until which the previous secret signs deliveries, too, Unix ms. Null: there is no previous secret.',
  ),
}

export const webhookResource = joi.object<WebhookResource>(webhookFields).id('Webhook')

/** The response to a creation or a rotation, the only one that contains a secret. */
export const newWebhookResource = joi
  .object<NewWebhookResource>({
    ...webhookFields,
    secret: joi.string().description('The generated secret. Store it: it is shown only once.'),
  })
  .id('WebhookWithSecret')

export const webhooksResult = listOf('webhooks', webhookResource)

const attempt = joi
  .object<AttemptResource>({
    at: joi.number().integer().required(),
    status: joi
      .number()
      .integer()
      .allow(null)
      .required()
      .description('Status of the response. Null: there was no response.'),
    latency_ms: joi.number().integer().required(),
    response: joi
      .string()
      .allow(null, '')
      .required()
      .description('Beginning of the response’s body, up to 4 KiB; in lists up to 200 characters.'),
    error: joi.string().allow(null).required().description('Why the attempt failed. Null: it did not fail.'),
  })
  .id('DeliveryAttempt')

const deliveryRecordFields = {
  delivery_id: joi
    .string()
    .required()
    .description('Id of the delivery, which is also the header `x-svc-delivery` of every attempt.'),
  event_type: enumText(deliveryKinds).required(),
  status: enumText(deliveryStatuses).required(),
  created_at: joi.number().integer().required(),
  next_attempt_at: timeOrNull.description('Time of the next attempt, Unix ms. Null: no further attempt is planned.'),
  attempts: joi.array().items(attempt).required().description('The last 100 attempts, oldest first.'),
}

const deliveryResource = joi.object<DeliveryResource>(deliveryRecordFields).id('Delivery')

/** Fields of a delivery's body that all kinds have in common. */
export const deliveryFields = {
  timestamp: joi
    .number()
    .integer()
    .required()
    .description('Time of the event that the delivery reports, Unix ms; the same in every attempt.'),
  site_id: joi.string().required(),
}

const deliveryBody = joi
  .object<DeliveryBody>({
    event_type: enumText(deliveryKinds).required(),
    ...deliveryFields,
    data: joi
      .object()
      .unknown()
      .required()
      .id('DeliveryData')
      .description('Content of the delivery, which depends on `event_type`.'),
  })
  .id('DeliveryBody')
  .description('Body that the receiver gets.')

export const deliveryWithPayload = joi
  .object<DeliveryWithPayload>({
    ...deliveryRecordFields,
    payload: deliveryBody.required(),
  })
  .id('DeliveryWithPayload')

export const deliveriesResult = listOf('deliveries', deliveryResource)

/** `data` of a test and a replay. */
export const queuedDelivery = joi.object<{ delivery_id: string }>({ delivery_id: joi.string().required() })

/** `data` of a recovery. */
export const recoverResult = joi.object<{ recovered: number }>({
  recovered: joi.number().integer().required().description('Number of deliveries that are sent again.'),
})
