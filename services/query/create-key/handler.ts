import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import { insufficientScope, invalidField } from '@sluice/contracts/errors'
import { createKeyBody } from '@sluice/contracts/keys'
import { grants } from '@sluice/contracts/scopes'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { ulid } from 'ulid'
import { toKeyResource } from '../key-resource.ts'

/** POST /api/v1/settings/keys: the only answer that ever holds the key (contract section 5). */
export function createKeyHandler({ keys }: { keys: Pick<KeyStore, 'create'> }) {
  return async ({ body, credential, receivedAt, log }: ApiRequest): Promise<Answer> => {
    const { name, scopes, environment, expires_at } = validate(createKeyBody, parseJson(body.bytes))
    if (expires_at !== undefined && expires_at !== null && expires_at <= receivedAt) {
      throw invalidField('expires_at', 'must be Unix time in milliseconds, in the future')
    }
    // A key can't grant what its maker lacks.
    for (const scope of scopes) if (!grants(credential.scopes, scope)) throw insufficientScope(scope)

    const key = generateKey(environment)
    const record = await keys.create({
      keyId: `key_${ulid()}`,
      name,
      environment,
      scopes,
      hash: hashKey(key),
      hint: keyHint(key),
      expiresAt: expires_at == null ? null : new Date(expires_at),
      bootstrap: false,
    })
    if (!record) throw new Error('a new key has the hash of an old one')
    log({ created_key_id: record.keyId })
    return { status: 201, data: { ...toKeyResource(record), key } }
  }
}
