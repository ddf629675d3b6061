import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { encodeBody } from '@sluice/postgres/deliveries'
import { requireFound } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import type { WebhookDeps } from './webhook-deps.ts'

/**
 * POST /api/v1/webhooks/:webhook_id/test: queues a delivery of the kind `webhook.test`, even if the webhook does not
 * take that kind or is off. Throws 404 for a missing or hidden one.
 */
export function testWebhookRoute({ webhooks, clock }: WebhookDeps): Route {
  return handle(operations.testWebhook, async ({ params: { webhook_id: webhookId }, credential, log }) => {
    log({ webhook_id: webhookId })
    const { siteId } = requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    const now = clock.now()
    const data = { webhook_id: webhookId, message: 'This is a test delivery.' }
    const body = encodeBody({ event_type: 'webhook.test', timestamp: now, site_id: siteId, data })
    const delivery = { webhookId, source: newId('test'), kind: 'webhook.test', body } as const
    const deliveryId = requireFound(await retryUnknownOutcome(() => webhooks.queueRequested(delivery, now)), 'Webhook')
    log({ delivery_id: deliveryId })
    return { delivery_id: deliveryId }
  })
}
