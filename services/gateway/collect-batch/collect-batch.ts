import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import type { AcceptBatch } from './accept-batch.ts'
import { readEvents } from './read-events.ts'

/**
 * POST /collect/batch: valid events are accepted even if others are invalid. 202 once the log has acknowledged the
 * valid ones, 400 if there are none (docs/http-interface.md#batches).
 */
export function collectBatchHandler(acceptBatch: AcceptBatch) {
  return async (request: ApiRequest): Promise<HandlerResult> => {
    const noneValid = 'Invalid field: events holds no valid event, see data.errors'
    const accepting = acceptBatch(request, readEvents(request.body), noneValid)
    // No await, so that nothing that this function has read stays in memory during the publish (accept-batch.ts).
    return accepting.then((data) => ({ status: 202, data }))
  }
}
