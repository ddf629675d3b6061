import type { AlertRuleStore } from '@sluice/postgres/alert-rules'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** Dependencies of the operations on alert rules. */
export interface AlertDeps {
  alertRules: AlertRuleStore
  secrets: SecretCipher
  /** Throws 400 that names the field for a URL that notifications may not be sent to. */
  checkTarget: (url: string, field: string) => Promise<void>
  /** Whether SLUICE_SMTP_URL is set. */
  canSendEmail: boolean
  clock: Pick<SynchronizedClock, 'now'>
}
