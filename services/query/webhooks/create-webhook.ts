import { requireWritableSite } from '@sluice/access/require-writable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { encryptTarget, type NewEndpoint } from '@sluice/postgres/endpoints'
import { newId } from '@sluice/runtime/ids'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { newSecret } from './new-secret.ts'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/**
 * POST /api/v1/webhooks: makes a webhook. If the body has no secret, one is generated, which only this response shows.
 * Throws 409 for a site that has as many webhooks as it may, and the errors of `checkTarget` and `requireWritableSite`.
 */
export function createWebhookRoute({
  sites,
  webhooks,
  secrets,
  clock,
  checkTarget,
}: WebhookDeps & { sites: Pick<SiteLookup, 'findOrRegister'> }): Route {
  return handle(operations.createWebhook, async ({ body, credential, signal, log }) => {
    const { site_id: siteId, url, events, active = true, secret, summary_interval: summaryInterval = '1d' } = body
    log({ site_id: siteId })
    await checkTarget(url, 'url')
    await requireWritableSite(sites, { credential, signal }, siteId)
    const generated = secret === undefined ? { secret: newSecret() } : {}
    const now = clock.now()
    const endpoint: NewEndpoint = {
      endpointId: newId('wh'),
      siteId,
      owner: 'webhook',
      channel: 'webhook',
      ...encryptTarget(secrets, 'webhook', url),
      encryptedSecret: secrets.encrypt(secret ?? generated.secret ?? ''),
      events,
      active,
      summaryInterval,
      keyId: credential.keyId,
      environment: credential.environment,
    }
    const record = await retryUnknownOutcome(() => webhooks.create(endpoint, now))
    log({ webhook_id: record.endpointId })
    return { ...toWebhookResource(record, secrets, now), ...generated }
  })
}
