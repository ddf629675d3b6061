import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { WebhookDeps } from './webhook-deps.ts'
import { toWebhookResource } from './webhook-resource.ts'

/** GET /api/v1/webhooks: a site's webhooks, newest first. */
export function listWebhooksRoute({ sites, webhooks, secrets, clock }: WebhookDeps & { sites: ReadableSites }): Route {
  return handle(operations.listWebhooks, async ({ query, credential, signal, log }) => {
    const { site_id: siteId, ...page } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)
    const { webhooks: records, total } = await webhooks.list(siteId, page)
    const now = clock.now()
    return { webhooks: records.map((record) => toWebhookResource(record, secrets, now)), total, ...page }
  })
}
