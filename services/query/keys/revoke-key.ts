import type { KeyStore } from '@sluice/access/keys'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'

/**
 * DELETE /api/v1/settings/keys/:key_id: revokes a key, in every process within 2 s. A repeated request succeeds. Throws
 * 404 for a missing or hidden key.
 */
export function revokeKeyRoute({ keys }: { keys: Pick<KeyStore, 'revoke'> }): Route {
  return handle(operations.revokeKey, async ({ params, credential, log }) => {
    const record = requireFound(await keys.revoke(params.key_id, credential.siteIds), 'Key')
    log({ revoked_key_id: record.keyId })
  })
}
