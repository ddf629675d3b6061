import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound, requireFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'

/**
 * POST …/deliveries/:delivery_id/replay: sends a delivery again at once, whatever its status, under its own id. Throws
 * 404 for a missing or hidden webhook, and for a delivery that is not its own or older than 30 days.
 */
export function replayDeliveryRoute({ webhooks, clock }: WebhookDeps): Route {
  return handle(operations.replayDelivery, async ({ params, credential, log }) => {
    const { webhook_id: webhookId, delivery_id: deliveryId } = params
    log({ webhook_id: webhookId, delivery_id: deliveryId })
    requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    if (!(await webhooks.replay(webhookId, deliveryId, clock.now()))) throw notFound('Delivery')
    return { delivery_id: deliveryId }
  })
}
