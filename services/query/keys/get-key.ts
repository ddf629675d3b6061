import type { KeyStore } from '@sluice/access/keys'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import { toKeyResource } from './key-resource.ts'

/** GET /api/v1/settings/keys/:key_id: returns the record of a key. Throws 404 for a missing or hidden one. */
export function getKeyRoute({ keys }: { keys: Pick<KeyStore, 'find'> }): Route {
  return handle(operations.getKey, async ({ params, credential }) => {
    const record = requireFound(await keys.find(params.key_id, credential.siteIds), 'Key')
    return toKeyResource(record)
  })
}
