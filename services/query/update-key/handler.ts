import { notFound } from '@sluice/contracts/errors'
import { updateKeyBody, type UpdateKeyBody } from '@sluice/contracts/keys'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyChanges, KeyStore } from '@sluice/postgres/keys'
import { toKeyResource } from '../key-resource.ts'
import { requireExpiry, requireFuture, requireGrantable, requireUsable } from '../key-rules.ts'

/** PUT /api/v1/settings/keys/:key_id: fields left out keep their value; every process obeys within 2 s. */
export function updateKeyHandler({ keys }: { keys: Pick<KeyStore, 'update'> }) {
  return async ({ params, body, credential, receivedAt, log }: ApiRequest): Promise<Answer> => {
    const sent = validate(updateKeyBody, parseJson(body.bytes))
    requireFuture(sent.expires_at, receivedAt)
    const record = await keys.update(params.key_id ?? '', credential, (key) => {
      requireUsable(key, receivedAt)
      const changes = changesOf(sent)
      // What results counts, not what was sent: nobody prolongs the life of a key that may do more than the own one.
      requireGrantable(credential, { ...key, ...changes })
      if (sent.expires_at !== undefined) requireExpiry(credential, sent.expires_at)
      return changes
    })
    if (!record) throw notFound('Key')
    log({ changed_key_id: record.keyId })
    return { status: 200, data: toKeyResource(record) }
  }
}

function changesOf({ name, scopes, site_ids, expires_at, rate_limits }: UpdateKeyBody): KeyChanges {
  return {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(site_ids === undefined ? {} : { siteIds: site_ids }),
    ...(expires_at === undefined ? {} : { expiresAt: expires_at === null ? null : new Date(expires_at) }),
    ...(rate_limits === undefined ? {} : { rateLimits: rate_limits }),
  }
}
