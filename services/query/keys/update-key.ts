import {
  addsRights,
  requireFuture,
  requireGrantable,
  requireNoLaterExpiry,
  requireUsable,
} from '@sluice/access/key-granting'
import type { KeyChanges, KeyStore } from '@sluice/access/keys'
import { operations } from '@sluice/api/operations'
import type { UpdateKeyBody } from '@sluice/contracts/keys'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { notFound } from '@sluice/runtime/errors'
import { toKeyResource } from './key-resource.ts'

/**
 * PUT /api/v1/settings/keys/:key_id: fields left out keep their value; every process applies the change within 2 s.
 * Throws 400 for an expiry in the past or after that of the key that asks, 403 when the resulting key has scopes or
 * sites that the key that asks lacks, 404 for a missing or hidden key, and 409 for a key that is revoked or expired.
 */
export function updateKeyRoute({ keys }: { keys: Pick<KeyStore, 'update'> }): Route {
  return handle(operations.updateKey, async ({ params, body: sent, credential, receivedAt, log }) => {
    requireFuture(sent.expires_at, receivedAt)
    const record = await keys.update(params.key_id, credential, (key) => {
      requireUsable(key, receivedAt)
      const changes = changesOf(sent)
      const changed = { ...key, ...changes }
      // The resulting key is checked, not only the changes: a key must not extend the lifetime of a key with more rights.
      requireGrantable(credential, changed)
      // A key must not grant rights to a longer-lived key.
      if (sent.expires_at !== undefined || addsRights(key, changed)) {
        requireNoLaterExpiry(credential, changed.expiresAt)
      }
      return changes
    })
    if (!record) throw notFound('Key')
    log({ changed_key_id: record.keyId })
    return toKeyResource(record)
  })
}

function changesOf({ name, scopes, site_ids, expires_at, rate_limits, allowed_origins }: UpdateKeyBody): KeyChanges {
  return {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(site_ids === undefined ? {} : { siteIds: site_ids }),
    ...(expires_at === undefined ? {} : { expiresAt: expires_at }),
    ...(rate_limits === undefined ? {} : { rateLimits: rate_limits }),
    ...(allowed_origins === undefined ? {} : { allowedOrigins: allowed_origins }),
  }
}
