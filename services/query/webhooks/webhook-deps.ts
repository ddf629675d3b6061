import type { Endpoint } from '@sluice/postgres/endpoints'
import type { SiteIds } from '@sluice/postgres/visible-sites'
import type { WebhookStore } from '@sluice/postgres/webhooks'
import { notFound } from '@sluice/runtime/errors'
import type { SecretBox } from '@sluice/runtime/secret-box'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** Dependencies of the operations on webhooks. */
export interface WebhookDeps {
  webhooks: WebhookStore
  secrets: SecretBox
  clock: Pick<SynchronizedClock, 'now'>
  /** Throws AppError 400 that names `field` for a URL to which nothing may be sent. */
  checkTarget: (url: string, field: string) => Promise<void>
}

/** Returns a webhook that the key may see. Throws 404 for a missing or hidden one. */
export async function visibleWebhook(
  webhooks: Pick<WebhookStore, 'find'>,
  webhookId: string,
  { siteIds }: { siteIds: SiteIds },
): Promise<Endpoint> {
  const found = await webhooks.find(webhookId, siteIds)
  if (!found) throw notFound('Webhook')
  return found
}
