import { eventLimits } from '@sluice/contracts/event-fields'
import { eventIdOf, eventTooLarge } from '@sluice/contracts/event'
import { siteNotAllowed, SluiceError } from '@sluice/contracts/errors'
import type { EventRow } from '@sluice/contracts/event-row'
import type { ApiRequest } from '@sluice/http/route'
import { encodeEvent, isEscapeFree } from '../collect/encode-event.ts'
import type { EncodedEvent } from '../publish/encode-blocks.ts'
import { refusalOf, type SiteRules } from '../publish/known-sites.ts'
import type { BatchItem } from './read-events.ts'

export interface EventError {
  index: number
  event_id?: string
  error: string
}

export interface EncodedBatch {
  /** The good events, in the order of the batch. */
  accepted: EncodedBatchEvent[]
  /** Of the good events. */
  siteIds: Set<string>
  rejected: number
  /** The first of the rejected ones. */
  errors: EventError[]
}

interface EncodedBatchEvent extends EncodedEvent {
  siteId: string
  /** Unix ms. */
  timestamp: number
  /** Its place in the batch, from 0. */
  index: number
}

/**
 * Encodes the good events of a batch, and says of the others why not; those of other sites than `bound` (undefined: any)
 * are not good either. Throws SluiceError 400 when it turns out to be no batch at all.
 */
export function encodeBatch(
  items: Iterable<BatchItem>,
  { body, receivedAt, credential }: ApiRequest,
  bound: ReadonlySet<string> | undefined,
): EncodedBatch {
  const receipt = { receivedAt, environment: credential.environment, escapeFree: isEscapeFree(body.bytes) }
  const accepted: EncodedBatchEvent[] = []
  const siteIds = new Set<string>()
  const errors: EventError[] = []
  let rejected = 0
  let index = 0

  for (const { value, isLine, error: unreadable } of items) {
    try {
      if (unreadable) throw unreadable
      const event = encodeEvent(value, receipt)
      if (!isLine && event.bytesAtMost > eventLimits.eventBytesMax && jsonBytes(value) > eventLimits.eventBytesMax) {
        throw eventTooLarge()
      }
      const { siteId, timestamp, line, keyHash, undated } = event
      if (bound?.has(siteId) === false) throw siteNotAllowed()
      accepted.push({ index, siteId, timestamp, line, keyHash, undated })
      siteIds.add(siteId)
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      rejected++
      if (errors.length < eventLimits.listedErrorsMax) errors.push(eventError(index, eventIdOf(value), error))
    }
    index++
  }
  return { accepted, siteIds, rejected, errors }
}

/** The batch without the events that their sites do not take. */
export function withoutRefused(batch: EncodedBatch, rules: SiteRules, receivedAt: number): EncodedBatch {
  const accepted: EncodedBatchEvent[] = []
  const errors: EventError[] = []
  for (const event of batch.accepted) {
    const { index, siteId, timestamp, line, keyHash } = event
    const rule = rules.get(siteId)
    const refusal = rule && refusalOf(rule, timestamp, receivedAt)
    if (refusal === undefined) accepted.push(event)
    else if (errors.length < eventLimits.listedErrorsMax) {
      // Only an id that the client sent has a hash.
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

function eventError(index: number, eventId: string | undefined, { message }: SluiceError): EventError {
  return { index, ...(eventId === undefined ? {} : { event_id: eventId }), error: message }
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
