import { refusalOf, type SitePolicies } from '@sluice/access/site-cache'
import type { EventError } from '@sluice/contracts/batch-result'
import type { EventRow } from '@sluice/contracts/event-columns'
import { eventLimits } from '@sluice/contracts/event-limits'
import { type EncodedEvent, encodeEvent } from '@sluice/events/encode-event'
import { eventIdOf } from '@sluice/events/event-errors'
import type { ApiRequest } from '@sluice/http/route'
import { AppError, siteNotAllowed } from '@sluice/runtime/errors'
import type { CountRejection } from '../metrics.ts'
import type { BatchItem } from './read-events.ts'

/** The events of a batch after their validation. */
export interface EncodedBatch {
  /** The valid events, in the order of the batch. */
  accepted: EncodedBatchEvent[]
  /** Sites of the valid events. */
  siteIds: Set<string>
  rejected: number
  /** The first errors, in the order of the batch. */
  errors: EventError[]
}

interface EncodedBatchEvent extends EncodedEvent {
  siteId: string
  /** Place of the event in the batch, from 0. */
  index: number
}

/**
 * Encodes the valid events of a batch and reports the errors of the others, including events of sites that are not in
 * `allowedSites` (undefined: any site). Throws AppError 400 if the body turns out not to be a batch.
 */
export function encodeBatch(
  items: Iterable<BatchItem>,
  { receivedAt, credential }: Pick<ApiRequest, 'receivedAt' | 'credential'>,
  allowedSites: ReadonlySet<string> | undefined,
  countRejection: CountRejection,
): EncodedBatch {
  const { environment } = credential
  const accepted: EncodedBatchEvent[] = []
  const siteIds = new Set<string>()
  const errors: EventError[] = []
  let rejected = 0
  let index = 0

  for (const { value, isLine, explain, error: unreadable } of items) {
    try {
      if (unreadable) throw unreadable
      const bytesMax = isLine ? undefined : eventLimits.eventBytesMax
      const event = encodeEvent(value, { receivedAt, environment, bytesMax })
      const { siteId, timestamp, line, keyHash, undated } = event
      if (allowedSites?.has(siteId) === false) throw siteNotAllowed()
      accepted.push({ index, siteId, timestamp, line, keyHash, undated })
      siteIds.add(siteId)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      rejected++
      countRejection(error)
      if (errors.length < eventLimits.listedErrorsMax) {
        errors.push(eventError(index, eventIdOf(value), explain?.(error) ?? error))
      }
    }
    index++
  }
  return { accepted, siteIds, rejected, errors }
}

/** The batch without the events that the policies of their sites refuse. */
export function withoutRefused(
  batch: EncodedBatch,
  policies: SitePolicies,
  receivedAt: number,
  countRejection: CountRejection,
): EncodedBatch {
  const accepted: EncodedBatchEvent[] = []
  const errors: EventError[] = []
  for (const event of batch.accepted) {
    const { index, siteId, timestamp, line, keyHash } = event
    const policy = policies.get(siteId)
    const refusal = policy && refusalOf(policy, timestamp, receivedAt)
    if (refusal === undefined) {
      accepted.push(event)
      continue
    }
    countRejection(refusal)
    if (errors.length < eventLimits.listedErrorsMax) {
      // An event has a hash only if the client sent its id.
      const eventId = keyHash === undefined ? undefined : (JSON.parse(line) as EventRow).event_id
      errors.push(eventError(index, eventId, refusal))
    }
  }
  return {
    accepted,
    siteIds: new Set(accepted.map(({ siteId }) => siteId)),
    rejected: batch.rejected + batch.accepted.length - accepted.length,
    errors: [...batch.errors, ...errors].sort((a, b) => a.index - b.index).slice(0, eventLimits.listedErrorsMax),
  }
}

function eventError(index: number, eventId: string | undefined, { message }: AppError): EventError {
  return { index, ...(eventId === undefined ? {} : { event_id: eventId }), error: message }
}
