import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'
import { toDeliveryResource } from './webhook-resource.ts'

/** GET /api/v1/webhooks/:webhook_id/deliveries: newest first. Throws 404 for a missing or hidden webhook. */
export function listDeliveriesRoute({ webhooks }: Pick<WebhookDeps, 'webhooks'>): Route {
  return handle(operations.listDeliveries, async ({ params, query, credential, log }) => {
    const { webhook_id: webhookId } = params
    const { status, ...page } = query
    log({ webhook_id: webhookId })
    requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    const { deliveries, total } = await webhooks.listDeliveries(webhookId, status, page)
    return { deliveries: deliveries.map(toDeliveryResource), total, ...page }
  })
}
