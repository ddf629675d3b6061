import { notFound } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { toKeyResource } from '../key-resource.ts'

/** GET /api/v1/settings/keys/:key_id. */
export function getKeyHandler({ keys }: { keys: Pick<KeyStore, 'find'> }) {
  return async ({ params, credential }: ApiRequest): Promise<Answer> => {
    const record = await keys.find(params.key_id ?? '', credential.siteIds)
    if (!record) throw notFound('Key')
    return { status: 200, data: toKeyResource(record) }
  }
}
