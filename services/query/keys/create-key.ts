import { requireFuture, requireGrantable, requireNoLaterExpiry } from '@sluice/access/key-granting'
import type { KeyStore } from '@sluice/access/keys'
import { newKey } from '@sluice/access/new-key'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { createWithRecovery } from './create-with-recovery.ts'
import { toKeyResource } from './key-resource.ts'

/**
 * POST /api/v1/settings/keys: creates a key, which only this response holds (docs/http-interface.md#create-key). Throws
 * 400 for an expiry in the past or after that of the creating key, and 403 for scopes or sites that the creating key
 * lacks.
 */
export function createKeyRoute({ keys }: { keys: Pick<KeyStore, 'create' | 'findByHash'> }): Route {
  return handle(operations.createKey, async ({ body, credential, receivedAt, log }) => {
    const { name, scopes, environment, site_ids, expires_at, rate_limits, allowed_origins } = body
    requireFuture(expires_at, receivedAt)
    // Absent: the sites of the creating key. Null: every site.
    const siteIds = site_ids === undefined ? credential.siteIds : site_ids
    requireGrantable(credential, { scopes, siteIds })
    // Absent: the expiry of the creating key.
    const expiresAt = expires_at === undefined ? credential.expiresAt : expires_at
    requireNoLaterExpiry(credential, expiresAt)

    const { key, stored } = newKey(environment)
    const record = await createWithRecovery(
      keys,
      {
        ...stored,
        name,
        environment,
        scopes,
        siteIds,
        rateLimits: rate_limits ?? null,
        allowedOrigins: allowed_origins ?? null,
        expiresAt,
        bootstrap: false,
      },
      credential.keyId,
    )
    if (!record) throw new Error('a new key has the hash of an old one')
    log({ created_key_id: record.keyId })
    return { ...toKeyResource(record), key }
  })
}
