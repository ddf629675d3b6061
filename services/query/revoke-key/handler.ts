import { notFound } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'

/** DELETE /api/v1/settings/keys/:key_id: revokes; every process refuses the key within 2 s. Repeating it is fine. */
export function revokeKeyHandler({ keys }: { keys: Pick<KeyStore, 'revoke'> }) {
  return async ({ params, credential, log }: ApiRequest): Promise<Answer> => {
    const record = await keys.revoke(params.key_id ?? '', credential.siteIds)
    if (!record) throw notFound('Key')
    log({ revoked_key_id: record.keyId })
    return { status: 200 }
  }
}
