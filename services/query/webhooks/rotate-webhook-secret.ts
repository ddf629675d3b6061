import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { conflict, requireFound } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { newSecret } from './new-secret.ts'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/**
 * POST /api/v1/webhooks/:webhook_id/rotate-secret: makes a secret, which only this response holds; deliveries are
 * signed with the old one as well until the end of the overlap. Throws 404 for a missing or hidden webhook. Throws 409
 * while the secret from before an earlier rotation still signs, because receivers might then know any of three secrets.
 */
export function rotateWebhookSecretRoute({ webhooks, secrets, clock }: WebhookDeps): Route {
  return handle(operations.rotateWebhookSecret, async ({ params, body: { overlap }, credential, log }) => {
    const { webhook_id: webhookId } = params
    log({ webhook_id: webhookId })
    const now = clock.now()
    const secret = newSecret()
    const rotate = () =>
      webhooks.update(
        webhookId,
        credential.siteIds,
        ({ encryptedSecret, previousSecretUntil }) => {
          // The first attempt was stored.
          if (encryptedSecret && secrets.tryDecrypt(encryptedSecret) === secret) return {}
          const rotatedUntil = previousSecretUntil ?? 0
          if (overlap > 0 && rotatedUntil > now) {
            const until = new Date(rotatedUntil).toISOString()
            throw conflict(
              `The secret was rotated, and the one before it signs until ${until}. PUT the secret that receivers have, and rotate again`,
            )
          }
          return {
            encryptedSecret: secrets.encrypt(secret),
            previousEncryptedSecret: overlap > 0 ? encryptedSecret : null,
            previousSecretUntil: overlap > 0 ? now + overlap : null,
          }
        },
        now,
      )
    const record = requireFound(await retryUnknownOutcome(rotate), 'Webhook')
    return { ...toWebhookResource(record, secrets, now), secret }
  })
}
