import { batchMediaTypes, eventMediaTypes } from '@sluice/contracts/bodies'
import { eventLimits } from '@sluice/contracts/event-fields'
import type { Route } from '@sluice/http/route'
import { collectHandler } from './collect/handler.ts'
import { collectBatchHandler } from './collect-batch/handler.ts'
import type { KnownSites } from './publish/known-sites.ts'
import type { Publisher } from './publish/publisher.ts'

/** Contract section 3. */
export function gatewayRoutes(deps: { publisher: Publisher; sites: KnownSites }): Route[] {
  return [
    {
      method: 'POST',
      path: '/collect',
      scope: 'events:write',
      limit: 'events',
      quiet: true,
      body: { types: eventMediaTypes, maxBytes: eventLimits.eventBytesMax },
      handle: collectHandler(deps),
    },
    {
      method: 'POST',
      path: '/collect/batch',
      scope: 'events:write',
      limit: 'events',
      quiet: true,
      body: { types: batchMediaTypes, maxBytes: eventLimits.batchBytesMax },
      handle: collectBatchHandler(deps),
    },
  ]
}
