import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'

/**
 * POST /api/v1/webhooks/:webhook_id/recover: repeats at once the deliveries that have not succeeded since a given time.
 * Throws 404 for a missing or hidden webhook.
 */
export function recoverDeliveriesRoute({ webhooks, clock }: WebhookDeps): Route {
  return handle(operations.recoverDeliveries, async ({ params, body: { since }, credential, log }) => {
    const { webhook_id: webhookId } = params
    log({ webhook_id: webhookId })
    requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    const recovered = await webhooks.recover(webhookId, since, clock.now())
    log({ recovered })
    return { recovered }
  })
}
