import { comparesWindows } from '@sluice/contracts/alert-state'
import type { AlertCondition, NotificationConfig, NotificationType } from '@sluice/contracts/alerts'
import { invalidField, missingField } from '@sluice/runtime/errors'

/** Throws 400 for fields of a condition that do not go with each other (docs/http-interface.md#alert-condition). */
export function requireValidCondition({ metric, operator, threshold, event_type: type }: AlertCondition): void {
  if (metric === 'event_count_by_type' && type === undefined) throw missingField('condition.event_type')
  if (comparesWindows(operator) && threshold < 0) {
    throw invalidField('condition.threshold', `must be at least 0 with ${operator}`)
  }
  if (operator === 'decreases_by_percent' && threshold > 100) {
    throw invalidField('condition.threshold', 'must be at most 100 with decreases_by_percent')
  }
}

/**
 * Throws 400 for a configuration that does not go with the type of notifications, or an e-mail that this server can't
 * send (docs/http-interface.md#alert-notifications).
 */
export function requireValidConfig(
  type: NotificationType,
  config: NotificationConfig,
  { canSendEmail }: { canSendEmail: boolean },
): void {
  const needed = type === 'email' ? 'to' : 'url'
  const excluded = [...(type === 'email' ? ['url'] : ['to']), ...(type === 'webhook' ? [] : ['secret'])] as const
  for (const field of excluded) {
    if (config[field as keyof NotificationConfig] === undefined) continue
    throw invalidField(`notification_config.${field}`, `does not go with notification_type ${type}`)
  }
  if (config[needed] === undefined) throw missingField(`notification_config.${needed}`)
  if (type === 'email' && !canSendEmail) {
    throw invalidField('notification_type', 'email needs SLUICE_SMTP_URL, which is not set on this server')
  }
}
