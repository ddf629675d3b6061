import type { WebhookStore } from '@sluice/postgres/webhooks'
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
