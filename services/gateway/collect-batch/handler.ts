import { eventLimits } from '@sluice/contracts/event-fields'
import { eventIdOf, eventTooLarge } from '@sluice/contracts/event'
import { SluiceError } from '@sluice/contracts/errors'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { encodeEvent } from '../collect/encode-event.ts'
import type { EncodedEvent } from '../publish/encode-blocks.ts'
import type { KnownSites } from '../publish/known-sites.ts'
import type { Publisher } from '../publish/publisher.ts'
import { readEvents } from './read-events.ts'

interface EventError {
  index: number
  event_id?: string
  error: string
}

/** All rejected events are counted, this many are listed. */
const listedErrorsMax = 100

/**
 * POST /collect/batch: good events are accepted although others are bad; 202 once the log has acknowledged the good
 * ones, 400 when there is none (contract section 3).
 */
export function collectBatchHandler({ publisher, sites }: { publisher: Publisher; sites: KnownSites }) {
  return async ({ body, receivedAt, credential, log }: ApiRequest): Promise<Answer> => {
    const items = readEvents(body)
    const receipt = { receivedAt, environment: credential.environment }
    const accepted: EncodedEvent[] = []
    const siteIds = new Set<string>()
    const errors: EventError[] = []
    let rejected = 0

    for (const [index, { value, isLine, error: unreadable }] of items.entries()) {
      try {
        if (unreadable) throw unreadable
        const event = encodeEvent(value, receipt)
        if (!isLine && event.bytesAtMost > eventLimits.eventBytesMax && jsonBytes(value) > eventLimits.eventBytesMax) {
          throw eventTooLarge()
        }
        accepted.push(event)
        siteIds.add(event.siteId)
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error
        rejected++
        if (errors.length < listedErrorsMax) {
          const eventId = eventIdOf(value)
          errors.push({ index, ...(eventId === undefined ? {} : { event_id: eventId }), error: error.message })
        }
      }
    }

    log({ events: accepted.length, rejected, sites: siteIds.size, bytes: body.bytes.length })
    const data = { accepted: accepted.length, rejected, errors }
    if (accepted.length === 0) {
      throw new SluiceError(400, { message: 'Invalid field: events holds no valid event, see data.errors', data })
    }
    await sites.register(siteIds)
    await publisher.publish(accepted)
    return { status: 202, data }
  }
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
