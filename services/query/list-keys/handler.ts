import { pageQuery } from '@sluice/contracts/page'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { toKeyResource } from '../key-resource.ts'

/** GET /api/v1/settings/keys: records without keys, newest first, revoked ones included. */
export function listKeysHandler({ keys }: { keys: Pick<KeyStore, 'list'> }) {
  return async ({ query, credential }: ApiRequest): Promise<Answer> => {
    const page = validate(pageQuery, { ...query })
    const { keys: records, total } = await keys.list(page, credential.siteIds)
    return { status: 200, data: { keys: records.map(toKeyResource), total, ...page } }
  }
}
