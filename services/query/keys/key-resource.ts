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
    created_at: key.createdAt.getTime(),
    last_used_at: key.lastUsedAt?.getTime() ?? null,
    expires_at: key.expiresAt?.getTime() ?? null,
    revoked_at: key.revokedAt?.getTime() ?? null,
    rate_limits: key.rateLimits,
    allowed_origins: key.allowedOrigins,
  }
}
