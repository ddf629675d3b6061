import type { Credential, Session } from '@sluice/access/credential'
import { type KeyStore, unusableReason } from '@sluice/access/keys'
import { requireImportKey } from '@sluice/access/require-import-key'
import type { Sessions } from '@sluice/access/sessions'
import { operations } from '@sluice/api/operations'
import { grants } from '@sluice/contracts/scopes'
import { insufficientScope, invalidApiKey } from '@sluice/runtime/errors'

/**
 * The credential with the rights that its key has at `now` (Unix ms). Throws 401 for a session that has ended and for a
 * key that is revoked or has expired, 403 for one that may make no imports any more, 503 for a session while Redis is
 * unavailable, as the checks before the handler do.
 */
export async function currentCredential(
  { keys, sessions }: { keys: Pick<KeyStore, 'find'>; sessions: Pick<Sessions, 'find'> },
  { credential, session }: { credential: Credential; session: Session | undefined },
  now: number,
): Promise<Credential> {
  if (session && !(await sessions.find(session.tokenHash))) throw invalidApiKey()
  const key = await keys.find(credential.keyId, null)
  if (!key || unusableReason(key, now) !== undefined) throw invalidApiKey()
  const { scopes, siteIds, allowedOrigins } = key
  const { scope } = operations.createImport
  if (!grants(scopes, scope)) throw insufficientScope(scope)
  requireImportKey(key)
  return { ...credential, scopes, siteIds, allowedOrigins }
}
