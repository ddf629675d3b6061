import type { NotificationConfig, NotificationType } from '@sluice/contracts/alerts'
import type { AlertTarget } from '@sluice/postgres/alert-rules'
import { sealTarget } from '@sluice/postgres/endpoints'
import type { SecretBox } from '@sluice/runtime/secret-box'

/** Seals the target of a valid configuration; without a secret, the stored one stays. */
export function sealAlertTarget(
  secrets: Pick<SecretBox, 'seal' | 'fingerprint'>,
  type: NotificationType,
  { url = '', to, secret }: NotificationConfig,
): AlertTarget {
  return {
    type,
    ...sealTarget(secrets, type, type === 'email' ? JSON.stringify(to) : url),
    ...(type === 'webhook' ? {} : { sealedSecret: null }),
    ...(secret === undefined ? {} : { sealedSecret: secrets.seal(secret) }),
  }
}
