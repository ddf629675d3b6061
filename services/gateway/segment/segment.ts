import type { Credential } from '@sluice/access/credential'
import { eventLimits } from '@sluice/contracts/event-limits'
import { encodeEvent } from '@sluice/events/encode-event'
import { parseJsonBody } from '@sluice/http/json-body'
import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import { AppError } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import type { AcceptEvent } from '../collect/accept-event.ts'
import type { AcceptBatch } from '../collect-batch/accept-batch.ts'
import type { CountRejection } from '../metrics.ts'
import { mapMessage, type MessageType } from './map-message.ts'
import { readMessages } from './read-messages.ts'

/** POST /v1/track and so on: accepts one message; answers 200 once the log has acknowledged its event. */
export function segmentMessageHandler(
  type: MessageType,
  { acceptEvent, countRejection }: { acceptEvent: AcceptEvent; countRejection: CountRejection },
) {
  return async (request: ApiRequest): Promise<HandlerResult> => {
    const { body, receivedAt, credential } = request
    let explain = (error: AppError): AppError => error
    try {
      const siteId = siteOf(credential)
      const mapped = mapMessage(parseJsonBody(body.bytes, parseExactly), siteId, type)
      explain = mapped.explain
      const event = encodeEvent(mapped.event, {
        receivedAt,
        environment: credential.environment,
        bytesMax: eventLimits.eventBytesMax,
      })
      await acceptEvent(event, request)
      return { status: 200 }
    } catch (error) {
      countRejection(error)
      throw error instanceof AppError ? explain(error) : error
    }
  }
}

/**
 * POST /v1/batch: accepts valid messages even if others are invalid. Answers 200 once the log has acknowledged their
 * events, and 400 if no message is valid (docs/http-interface.md#segment-answers).
 */
export function segmentBatchHandler(acceptBatch: AcceptBatch) {
  return async (request: ApiRequest): Promise<HandlerResult> => {
    const messages = readMessages(request.body.bytes, siteOf(request.credential))
    const accepting = acceptBatch(request, messages, 'Invalid field: batch holds no valid message, see data.errors')
    // No await, so that nothing that this function has read stays in memory during the publish (accept-batch.ts).
    return accepting.then((data) => ({ status: 200, data }))
  }
}

/** The site of the key: messages contain no site. Throws 403 for a key that is not bound to exactly one site. */
function siteOf({ siteIds }: Credential): string {
  const [siteId] = siteIds ?? []
  if (siteIds?.length === 1 && siteId !== undefined) return siteId
  throw new AppError('forbidden', {
    message:
      'Messages of Segment’s clients contain no site: use a write key that is bound to exactly one site (site_ids of the key)',
  })
}
