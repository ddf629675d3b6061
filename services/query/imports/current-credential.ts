import type { Credential } from '@sluice/access/credential'
import { type KeyStore, unusableReason } from '@sluice/access/keys'
import { operations } from '@sluice/api/operations'
import { grants } from '@sluice/contracts/scopes'
import { insufficientScope, invalidApiKey, browserKeyNotAllowed } from '@sluice/runtime/errors'

/**
 * The credential with the rights that its key has at `now` (Unix ms). Throws 401 for a key that is revoked or has
 * expired, 403 for one that may make no imports any more, as the checks before the handler do.
 */
export async function currentCredential(
  keys: Pick<KeyStore, 'find'>,
  credential: Credential,
  now: number,
): Promise<Credential> {
  const key = await keys.find(credential.keyId, null)
  if (!key || unusableReason(key, now) !== undefined) throw invalidApiKey()
  const { scopes, siteIds, allowedOrigins } = key
  const { scope } = operations.createImport
  if (!grants(scopes, scope)) throw insufficientScope(scope)
  if (allowedOrigins) throw browserKeyNotAllowed()
  return { ...credential, scopes, siteIds, allowedOrigins }
}
