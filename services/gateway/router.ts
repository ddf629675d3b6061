import { operations } from '@sluice/contracts/operations'
import type { Route } from '@sluice/http/route'
import { collectHandler } from './collect/handler.ts'
import { collectBatchHandler } from './collect-batch/handler.ts'
import type { KnownSites } from './publish/known-sites.ts'
import type { Publisher } from './publish/publisher.ts'

/** Contract section 3. */
export function gatewayRoutes(deps: { publisher: Publisher; sites: Pick<KnownSites, 'register'> }): Route[] {
  return [
    { ...operations.collect, handle: collectHandler(deps) },
    { ...operations.collectBatch, handle: collectBatchHandler(deps) },
  ]
}
