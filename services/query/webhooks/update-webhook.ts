import { operations } from '@sluice/api/operations'
import type { UpdateWebhookBody } from '@sluice/contracts/webhooks'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { encryptTarget, type EndpointChanges } from '@sluice/postgres/endpoints'
import { requireFound } from '@sluice/runtime/errors'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import { requireUnchangedSite } from '../require-unchanged-site.ts'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/**
 * PUT /api/v1/webhooks/:webhook_id: fields left out keep their value; `active: true` clears `disabled_at`. Throws 404
 * for a missing or hidden webhook, and the errors of `checkTarget`.
 */
export function updateWebhookRoute({ webhooks, secrets, clock, checkTarget }: WebhookDeps): Route {
  return handle(operations.updateWebhook, async ({ params, body, credential, log }) => {
    const { webhook_id: webhookId } = params
    const { site_id: repeatedId, ...sent } = body
    log({ webhook_id: webhookId })
    const found = requireFound(await webhooks.find(webhookId, credential.siteIds), 'Webhook')
    requireUnchangedSite(repeatedId, found.siteId)
    const now = clock.now()
    if (Object.keys(sent).length === 0) return toWebhookResource(found, secrets, now)
    if (sent.url !== undefined) await checkTarget(sent.url, 'url')
    const changes = toChanges(sent, secrets)
    const record = requireFound(await webhooks.update(webhookId, credential.siteIds, () => changes, now), 'Webhook')
    return toWebhookResource(record, secrets, now)
  })
}

function toChanges(sent: Omit<UpdateWebhookBody, 'site_id'>, secrets: SecretCipher): EndpointChanges {
  const { url, secret, events, active, summary_interval: summaryInterval } = sent
  return {
    ...(url === undefined ? {} : encryptTarget(secrets, 'webhook', url)),
    // The secret is replaced at once, which also ends a rotation that is under way.
    ...(secret === undefined
      ? {}
      : { encryptedSecret: secrets.encrypt(secret), previousEncryptedSecret: null, previousSecretUntil: null }),
    events,
    active,
    summaryInterval,
  }
}
