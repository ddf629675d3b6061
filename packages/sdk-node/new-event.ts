import { randomUUID } from 'node:crypto'
import { eventLimits } from '@sluice/contracts/event-limits'
import type { EventFields, Properties, Receipt } from './types.ts'

/** A queued event. Its JSON is written to the spool and sent as it is, in each attempt. */
export interface QueuedEvent extends Receipt {
  readonly json: string
  /** Bytes of the JSON. */
  readonly bytes: number
  /** False if the timestamp comes from this machine's clock: when Sluice refuses it, it may be corrected once. */
  readonly isTimeFinal: boolean
}

/** The parts of a new event. */
export interface EventParts {
  site: string
  type: string
  properties: Properties | undefined
  fields: EventFields
  /** Unix ms. */
  now: number
}

/** Creates an event with its id and its time. Throws an Error that says what is invalid. */
export function newEvent({ site, type, properties, fields, now }: EventParts): QueuedEvent {
  const { event_id: givenId, timestamp: givenTime, ...rest } = fields
  if (typeof type !== 'string' || type === '') throw new Error('the event type must be a string that is not empty')
  if (givenTime !== undefined && !Number.isFinite(givenTime))
    throw new Error('timestamp must be Unix time in milliseconds')
  if (givenId !== undefined && (typeof givenId !== 'string' || givenId === ''))
    throw new Error('event_id must be a string that is not empty')
  const receipt = { event_id: givenId ?? newEventId(now), timestamp: Math.trunc(givenTime ?? now) }
  const fixed = { site_id: site, event_type: type, ...receipt }
  // Callers in JavaScript may also pass a whole event as the fields.
  const json = JSON.stringify({ ...fixed, ...rest, ...fixed, properties })
  const bytes = Buffer.byteLength(json)
  if (bytes > eventLimits.eventBytesMax)
    throw new Error(`the event has ${bytes} bytes of JSON, more than the ${eventLimits.eventBytesMax} of one event`)
  return { ...receipt, json, bytes, isTimeFinal: givenTime !== undefined }
}

/** The event with a corrected time, which is final. */
export function atTime(event: QueuedEvent, timestamp: number): QueuedEvent {
  // Parsing it could change names of properties (https://github.com/nodejs/node/issues/63785). Only strings are before
  // the time, and a quotation mark in a string has a backslash.
  const json = event.json.replace(/(?<=stamp":)\d+/, `${timestamp}`)
  return { ...event, timestamp, json, bytes: Buffer.byteLength(json), isTimeFinal: true }
}

/** A UUIDv7 (RFC 9562) of a time in Unix ms: the random bits are those of a UUIDv4. */
export function newEventId(ms: number): string {
  const time = Math.max(0, Math.trunc(ms)).toString(16).padStart(12, '0').slice(-12)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
