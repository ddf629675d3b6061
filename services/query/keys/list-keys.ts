import type { KeyStore } from '@sluice/access/keys'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toKeyResource } from './key-resource.ts'

/** GET /api/v1/settings/keys: records without keys, newest first, revoked ones included. */
export function listKeysRoute({ keys }: { keys: Pick<KeyStore, 'list'> }): Route {
  return handle(operations.listKeys, async ({ query: page, credential }) => {
    const { keys: records, total } = await keys.list(page, credential.siteIds)
    return { keys: records.map(toKeyResource), total, ...page }
  })
}
