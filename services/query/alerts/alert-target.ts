import type { NotificationConfig, NotificationType } from '@sluice/contracts/alerts'
import type { AlertTarget } from '@sluice/postgres/alert-rules'
import { encryptTarget } from '@sluice/postgres/endpoints'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'

/** Encrypts the target of a valid configuration; without a secret, the stored one stays. */
export function encryptAlertTarget(
  secrets: Pick<SecretCipher, 'encrypt' | 'fingerprint'>,
  type: NotificationType,
  { url = '', to, secret }: NotificationConfig,
): AlertTarget {
  return {
    type,
    ...encryptTarget(secrets, type, type === 'email' ? JSON.stringify(to) : url),
    ...(type === 'webhook' ? {} : { encryptedSecret: null }),
    ...(secret === undefined ? {} : { encryptedSecret: secrets.encrypt(secret) }),
  }
}
