import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireVisibleWebhook } from './require-visible-webhook.ts'
import type { WebhookDeps } from './webhook-deps.ts'

/**
 * POST /api/v1/webhooks/:webhook_id/recover: repeats at once the deliveries that have not succeeded since a given time.
 * Throws 404 for a missing or hidden webhook.
 */
export function recoverDeliveriesRoute({ webhooks, clock }: WebhookDeps): Route {
  return handle(operations.recoverDeliveries, async ({ params, body: { since }, credential, log }) => {
    const { webhook_id: webhookId } = params
    log({ webhook_id: webhookId })
    await requireVisibleWebhook(webhooks, webhookId, credential)
    const recovered = await webhooks.recover(webhookId, since, clock.now())
    log({ recovered })
    return { recovered }
  })
}
