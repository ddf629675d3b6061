import type { Endpoint } from '@sluice/postgres/endpoints'
import type { SiteIds } from '@sluice/postgres/visible-sites'
import type { WebhookStore } from '@sluice/postgres/webhooks'
import { notFound } from '@sluice/runtime/errors'

/** Returns a webhook that the key may see. Throws 404 for a missing or hidden one. */
export async function requireVisibleWebhook(
  webhooks: Pick<WebhookStore, 'find'>,
  webhookId: string,
  { siteIds }: { siteIds: SiteIds },
): Promise<Endpoint> {
  const found = await webhooks.find(webhookId, siteIds)
  if (!found) throw notFound('Webhook')
  return found
}
