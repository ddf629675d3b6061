import type { WebhookStore } from '@sluice/postgres/webhooks'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** Dependencies of the operations on webhooks. */
export interface WebhookDeps {
  webhooks: WebhookStore
  secrets: SecretCipher
  clock: Pick<SynchronizedClock, 'now'>
  /** Throws AppError 400 that names `field` for a URL to which nothing may be sent. */
  checkTarget: (url: string, field: string) => Promise<void>
}
