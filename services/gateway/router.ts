import type { SiteCache } from '@sluice/access/site-cache'
import { operations } from '@sluice/api/operations'
import type { Route } from '@sluice/http/route'
import { collectHandler } from './collect/collect.ts'
import { collectBatchHandler } from './collect-batch/collect-batch.ts'
import type { CountRejection } from './metrics.ts'
import type { Publisher } from './publish/publisher.ts'

/** The operations of docs/http-interface.md#collection. */
export function gatewayRoutes(deps: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}): Route[] {
  return [
    { ...operations.collect, handle: collectHandler(deps) },
    { ...operations.collectBatch, handle: collectBatchHandler(deps) },
  ]
}
