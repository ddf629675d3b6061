import { operations } from '@sluice/api/operations'
import type { DeliveryBody } from '@sluice/contracts/webhooks'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'
import { toDeliveryResource } from './webhook-resource.ts'

/**
 * GET /api/v1/webhooks/:webhook_id/deliveries/:delivery_id: a delivery with what its receiver gets. Throws 404 for a
 * missing or hidden webhook, and for a delivery that is not its own or older than 30 days.
 */
export function getDeliveryRoute({ webhooks }: Pick<WebhookDeps, 'webhooks'>): Route {
  return handle(operations.getDelivery, async ({ params, credential, log }) => {
    const { webhook_id: webhookId, delivery_id: deliveryId } = params
    log({ webhook_id: webhookId, delivery_id: deliveryId })
    requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    const found = requireFound(await webhooks.findDelivery(webhookId, deliveryId), 'Delivery')
    return { ...toDeliveryResource(found), payload: JSON.parse(found.body.toString('utf8')) as DeliveryBody }
  })
}
