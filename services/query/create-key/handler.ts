import { createKeyBody } from '@sluice/contracts/keys'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { toKeyResource } from '../key-resource.ts'
import { requireExpiry, requireFuture, requireGrantable } from '../key-rules.ts'
import { newKey } from '../new-key.ts'

/** POST /api/v1/settings/keys: the only answer that ever holds the key (contract section 5). */
export function createKeyHandler({ keys }: { keys: Pick<KeyStore, 'create'> }) {
  return async ({ body, credential, receivedAt, log }: ApiRequest): Promise<Answer> => {
    const { name, scopes, environment, site_ids, expires_at, rate_limits } = validate(
      createKeyBody,
      parseJson(body.bytes),
    )
    requireFuture(expires_at, receivedAt)
    // Left out, it is the maker's own; null asks for every site.
    const siteIds = site_ids === undefined ? credential.siteIds : site_ids
    requireGrantable(credential, { scopes, siteIds })
    // Left out, it is the maker's own too.
    const expiresAt = expires_at === undefined ? credential.expiresAt : expires_at
    requireExpiry(credential, expiresAt)

    const { key, stored } = newKey(environment)
    const record = await keys.create(
      {
        ...stored,
        name,
        environment,
        scopes,
        siteIds,
        rateLimits: rate_limits ?? null,
        expiresAt: expiresAt === null ? null : new Date(expiresAt),
        bootstrap: false,
      },
      credential.keyId,
    )
    if (!record) throw new Error('a new key has the hash of an old one')
    log({ created_key_id: record.keyId })
    return { status: 201, data: { ...toKeyResource(record), key } }
  }
}
