import { conflict, notFound } from '@sluice/contracts/errors'
import { rotateKeyBody } from '@sluice/contracts/keys'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { toKeyResource } from '../key-resource.ts'
import { requireExpiry, requireGrantable, requireUsable } from '../key-rules.ts'
import { newKey } from '../new-key.ts'

/**
 * POST /api/v1/settings/keys/:key_id/rotate: a key with the same grants, shown this once; the old one goes on working
 * for the overlap, but not beyond its own expiry (contract section 5).
 */
export function rotateKeyHandler({ keys }: { keys: Pick<KeyStore, 'rotate'> }) {
  return async ({ params, body, credential, receivedAt, log }: ApiRequest): Promise<Answer> => {
    const { overlap } = validate(rotateKeyBody, parseJson(body.bytes))
    const keyId = params.key_id ?? ''
    let made = ''
    const record = await keys.rotate(keyId, credential.siteIds, (old) => {
      requireUsable(old, receivedAt)
      // Its expiry is that of the overlap: a second key would end with it.
      if (old.rotatedTo !== null) throw conflict(`Key was rotated: rotate its replacement, ${old.rotatedTo}`)
      requireGrantable(credential, old)
      requireExpiry(credential, old.expiresAt?.getTime() ?? null)
      const { key, stored } = newKey(old.environment)
      made = key
      return { replacement: stored, oldExpiresAt: new Date(receivedAt + overlap) }
    })
    if (!record) throw notFound('Key')
    log({ rotated_key_id: keyId, created_key_id: record.keyId })
    return { status: 201, data: { ...toKeyResource(record), key: made } }
  }
}
