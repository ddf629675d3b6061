import type { AlertResource, NotificationConfig } from '@sluice/contracts/alerts'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'

/** Converts a stored rule to its form in responses; times are in Unix ms. The secret is not in it. */
export function toAlertResource(rule: AlertRule, secrets: Pick<SecretCipher, 'tryDecrypt'>): AlertResource {
  const { settings, state } = rule
  return {
    rule_id: rule.ruleId,
    site_id: rule.siteId,
    ...settings,
    environment: rule.environment,
    notification_type: rule.notificationType,
    notification_config: configOf(rule, secrets),
    state: state.state,
    pending_since: state.pendingSince,
    firing_id: rule.firingId,
    last_value: state.lastValue,
    last_evaluated_at: rule.lastEvaluatedAt,
    last_fired_at: state.lastFiredAt,
    last_error: rule.lastError,
    created_at: rule.createdAt,
    updated_at: rule.updatedAt,
  }
}

/**
 * The stored configuration without its secret, and without a target that was stored with another SLUICE_SECRETS_KEY.
 */
export function configOf(
  { notificationType, channel, encryptedTarget }: Pick<AlertRule, 'notificationType' | 'channel' | 'encryptedTarget'>,
  secrets: Pick<SecretCipher, 'tryDecrypt'>,
): NotificationConfig {
  const target = secrets.tryDecrypt(encryptedTarget)
  const isEmail = notificationType === 'email'
  return {
    ...(target !== undefined && (isEmail ? { to: JSON.parse(target) as string[] } : { url: target })),
    ...(channel === null ? {} : { channel }),
  }
}
