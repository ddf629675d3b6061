import type { KeyRecord } from '@sluice/access/keys'
import type { KeyResource } from '@sluice/contracts/keys'

/** The record of a key in responses, without its hash. */
export function toKeyResource(key: KeyRecord): KeyResource {
  return {
    key_id: key.keyId,
    name: key.name,
    environment: key.environment,
    scopes: key.scopes,
    site_ids: key.siteIds,
    hint: key.hint,
    created_at: key.createdAt,
    last_used_at: key.lastUsedAt,
    expires_at: key.expiresAt,
    revoked_at: key.revokedAt,
    rate_limits: key.rateLimits,
    allowed_origins: key.allowedOrigins,
  }
}
