import type { ClickHouse } from '@sluice/clickhouse/client'
import type { Route } from '@sluice/http/route'
import type { KeyStore } from '@sluice/postgres/keys'
import { createKeyHandler } from './create-key/handler.ts'
import type { SiteLookup } from './find-site.ts'
import { getKeyHandler } from './get-key/handler.ts'
import { listKeysHandler } from './list-keys/handler.ts'
import { revokeKeyHandler } from './revoke-key/handler.ts'
import { statsHandler } from './stats/handler.ts'

export interface QueryDeps {
  clickHouse: Pick<ClickHouse, 'query'>
  sites: SiteLookup
  keys: KeyStore
}

/** A small JSON object; far above what any body of these operations needs. */
const jsonBody = { types: ['application/json'], maxBytes: 64 * 1024 }

/** Contract sections 4 and 5. */
export function queryRoutes(deps: QueryDeps): Route[] {
  return [
    { method: 'GET', path: '/api/v1/stats', scope: 'stats:read', limit: 'queries', handle: statsHandler(deps) },
    {
      method: 'POST',
      path: '/api/v1/settings/keys',
      scope: 'admin',
      limit: 'admin',
      body: jsonBody,
      handle: createKeyHandler(deps),
    },
    { method: 'GET', path: '/api/v1/settings/keys', scope: 'admin', limit: 'queries', handle: listKeysHandler(deps) },
    {
      method: 'GET',
      path: '/api/v1/settings/keys/:key_id',
      scope: 'admin',
      limit: 'queries',
      handle: getKeyHandler(deps),
    },
    {
      method: 'DELETE',
      path: '/api/v1/settings/keys/:key_id',
      scope: 'admin',
      limit: 'admin',
      handle: revokeKeyHandler(deps),
    },
  ]
}
