import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/** GET /api/v1/webhooks/:webhook_id. Throws 404 for a missing or hidden one. */
export function getWebhookRoute({ webhooks, secrets, clock }: WebhookDeps): Route {
  return handle(operations.getWebhook, async ({ params: { webhook_id: webhookId }, credential, log }) => {
    log({ webhook_id: webhookId })
    const found = requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    return toWebhookResource(found, secrets, clock.now())
  })
}
