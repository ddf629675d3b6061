import { randomBytes } from 'node:crypto'
import type { NotificationConfig, NotificationType } from '@sluice/contracts/alerts'
import type { AlertTarget } from '@sluice/postgres/alert-rules'
import type { SecretBox } from '@sluice/runtime/secret-box'

/** Seals the target of a fitting configuration; without a secret, the stored one stays. */
export function sealAlertTarget(
  secrets: Pick<SecretBox, 'seal' | 'fingerprint'>,
  type: NotificationType,
  { url = '', to, secret }: NotificationConfig,
): AlertTarget {
  const target = type === 'email' ? JSON.stringify(to) : url
  return {
    type,
    targetBox: secrets.seal(target),
    targetFingerprint: secrets.fingerprint(target),
    ...(type === 'webhook' ? {} : { secretBox: null }),
    ...(secret === undefined ? {} : { secretBox: secrets.seal(secret) }),
  }
}

/** 256 bits as 43 characters. */
export function newAlertSecret(): string {
  return randomBytes(32).toString('base64url')
}
