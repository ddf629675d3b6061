import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound } from '@sluice/runtime/errors'
import { newSecret } from './new-secret.ts'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/**
 * POST /api/v1/webhooks/:webhook_id/rotate-secret: makes a secret, which only this response holds; deliveries are signed
 * with the old one as well until the end of the overlap. Throws 404 for a missing or hidden webhook.
 */
export function rotateWebhookSecretRoute({ webhooks, secrets, clock }: WebhookDeps): Route {
  return handle(operations.rotateWebhookSecret, async ({ params, body: { overlap }, credential, log }) => {
    const { webhook_id: webhookId } = params
    log({ webhook_id: webhookId })
    const now = clock.now()
    const secret = newSecret()
    const record = await webhooks.update(
      webhookId,
      credential.siteIds,
      ({ secretBox }) => ({
        secretBox: secrets.seal(secret),
        previousSecretBox: overlap > 0 ? secretBox : null,
        previousSecretUntil: overlap > 0 ? new Date(now + overlap) : null,
      }),
      now,
    )
    if (!record) throw notFound('Webhook')
    return { ...toWebhookResource(record, secrets, now), secret }
  })
}
