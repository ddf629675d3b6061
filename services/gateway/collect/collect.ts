import { encodeEvent } from '@sluice/events/encode-event'
import { parseJsonBody } from '@sluice/http/json-body'
import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import type { CountRejection } from '../metrics.ts'
import type { AcceptEvent } from './accept-event.ts'

/** POST /collect: one event in, 202 once the log has acknowledged it (docs/http-interface.md#collection). */
export function collectHandler({
  acceptEvent,
  countRejection,
}: {
  acceptEvent: AcceptEvent
  countRejection: CountRejection
}) {
  return async (request: ApiRequest): Promise<HandlerResult> => {
    const { body, receivedAt, credential } = request
    try {
      const event = encodeEvent(parseJsonBody(body.bytes, parseExactly), {
        receivedAt,
        environment: credential.environment,
      })
      await acceptEvent(event, request)
      return { status: 202 }
    } catch (error) {
      countRejection(error)
      throw error
    }
  }
}
