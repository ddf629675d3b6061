import type { DeliveryResource, WebhookResource } from '@sluice/contracts/webhooks'
import type { Endpoint } from '@sluice/postgres/endpoints'
import type { DeliveryRecord } from '@sluice/postgres/webhooks'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'

/**
 * Converts a stored webhook to its form in responses at `now`; times are in Unix ms. The URL is empty when it was
 * stored with another SLUICE_SECRETS_KEY.
 */
export function toWebhookResource(
  endpoint: Endpoint,
  secrets: Pick<SecretCipher, 'tryDecrypt'>,
  now: number,
): WebhookResource {
  const { previousSecretUntil } = endpoint
  const isRotating = previousSecretUntil !== null && previousSecretUntil > now
  return {
    webhook_id: endpoint.endpointId,
    site_id: endpoint.siteId,
    url: secrets.tryDecrypt(endpoint.encryptedTarget) ?? '',
    events: endpoint.events,
    active: endpoint.active,
    summary_interval: endpoint.summaryInterval ?? '1d',
    environment: endpoint.environment,
    created_at: endpoint.createdAt,
    updated_at: endpoint.updatedAt,
    failing_since: endpoint.failingSince,
    disabled_at: endpoint.disabledAt,
    disabled_reason: endpoint.disabledReason,
    previous_secret_expires_at: isRotating ? previousSecretUntil : null,
  }
}

/** Converts a stored delivery to its form in responses. */
export function toDeliveryResource(delivery: DeliveryRecord): DeliveryResource {
  return {
    delivery_id: delivery.deliveryId,
    event_type: delivery.kind,
    status: delivery.status,
    created_at: delivery.createdAt,
    next_attempt_at: delivery.dueAt,
    attempts: delivery.attempts.map(({ at, status, latencyMs, response, error }) => ({
      at,
      status,
      latency_ms: latencyMs,
      response,
      error,
    })),
  }
}
