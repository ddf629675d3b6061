import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'

/**
 * DELETE /api/v1/webhooks/:webhook_id: deletes a webhook with its deliveries. Throws 404 for a missing or hidden one.
 */
export function deleteWebhookRoute({ webhooks }: Pick<WebhookDeps, 'webhooks'>): Route {
  return handle(operations.deleteWebhook, async ({ params: { webhook_id: webhookId }, credential, log }) => {
    log({ webhook_id: webhookId })
    if (!(await webhooks.delete(webhookId, credential.siteIds))) throw notFound('Webhook')
  })
}
