import joi from 'joi'
import { invalidFormat, SluiceError } from './errors.ts'
import type { EventRow } from './event-row.ts'
import { flattenProperties } from './properties.ts'
import type { Environment } from './scopes.ts'
import { exceeds, text, validate } from './validate.ts'

/** Limits of contract section 3. Lengths count code points, sizes count bytes of UTF-8. */
export const eventLimits = {
  siteIdLengthMax: 64,
  eventTypeLengthMax: 64,
  sessionIdLengthMax: 64,
  userIdLengthMax: 64,
  anonymousIdLengthMax: 64,
  eventIdLengthMax: 64,
  urlLengthMax: 2_048,
  referrerLengthMax: 2_048,
  /** Later than the time of receipt by more than this: refused. */
  futureMsMax: 24 * 3_600_000,
  /** 1971-01-01: earlier ones are seconds sent as milliseconds, or a clock that was never set. */
  timestampMsMin: Date.UTC(1971, 0, 1),
  /** An event alone: its body; one of a batch: its compact JSON, or its line. */
  eventBytesMax: 32 * 1024,
  batchEventsMax: 2_000,
  /** After decompression. */
  batchBytesMax: 10 * 1024 * 1024,
} as const

export const deviceTypes = ['desktop', 'mobile', 'tablet'] as const

interface SentEvent {
  site_id: string
  event_type: string
  timestamp?: number
  session_id?: string
  user_id?: string
  url?: string
  referrer?: string
  country?: string
  device_type?: string
  anonymous_id?: string
  event_id?: string
  properties?: object
}

const timestamp = joi
  .number()
  .unsafe()
  .empty(joi.valid('', null))
  .custom((value: number, helpers) => {
    const { receivedAt } = helpers.prefs.context as { receivedAt: number }
    if (value < eventLimits.timestampMsMin) return helpers.error('timestamp.past')
    if (value > receivedAt + eventLimits.futureMsMax) return helpers.error('timestamp.future')
    return Math.trunc(value)
  })
  .messages({
    'timestamp.past': 'must be Unix time in milliseconds, not before 1971',
    'timestamp.future': 'must not be more than 24 hours in the future',
  })

/** The known fields, in the order of the contract's table: the first problem in this order is reported. */
const fields = {
  site_id: text(eventLimits.siteIdLengthMax).required(),
  event_type: text(eventLimits.eventTypeLengthMax).required(),
  timestamp,
  session_id: text(eventLimits.sessionIdLengthMax),
  user_id: text(eventLimits.userIdLengthMax),
  url: text(eventLimits.urlLengthMax),
  referrer: text(eventLimits.referrerLengthMax),
  country: joi
    .string()
    .empty(joi.valid('', null))
    .pattern(/^[a-z0-9]{2}$/i)
    .messages({ 'string.pattern.base': 'must be 2 letters or digits' }),
  device_type: joi
    .string()
    .empty(joi.valid('', null))
    .valid(...deviceTypes)
    .insensitive(),
  anonymous_id: text(eventLimits.anonymousIdLengthMax),
  event_id: text(eventLimits.eventIdLengthMax),
  properties: joi.object().empty(joi.valid('', null)),
}

const sentEvent = joi.object<SentEvent>(fields)
const knownFields: ReadonlySet<string> = new Set(Object.keys(fields))

export interface Receipt {
  /** Unix ms. */
  receivedAt: number
  /** The credential's: where the event is stored. */
  environment: Environment
  /** Makes the `event_id` of an event that came without one. */
  newEventId: () => string
}

/**
 * Validates one event of contract section 3 and normalises it to its row: country upper-case, device_type lower-case,
 * fractions of milliseconds dropped, properties flattened, unknown top-level fields kept as properties.
 * `clientId` tells whether the client sent the `event_id`: only then can copies of the event exist.
 * Throws SluiceError 400 for the first problem, in the order of the contract's table.
 */
export function toEventRow(
  value: unknown,
  { receivedAt, environment, newEventId }: Receipt,
): { row: EventRow; clientId: boolean } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidFormat('an event must be a JSON object')
  }
  const [known, unknown] = splitFields(value as Record<string, unknown>)
  const sent = validate(sentEvent, known, { receivedAt })
  const { properties, types } = flattenProperties(unknown, sent.properties as Record<string, unknown> | undefined)

  // Absent fields are left out; keys stand in the order of EventRow, so that every row has the same shape.
  const row: EventRow = {
    site_id: sent.site_id,
    environment,
    event_type: sent.event_type,
    timestamp: sent.timestamp ?? receivedAt,
    event_id: sent.event_id ?? newEventId(),
    ...(sent.timestamp === undefined && sent.event_id !== undefined ? { undated: 1 as const } : undefined),
    ...(sent.session_id === undefined ? undefined : { session_id: sent.session_id }),
    ...(sent.user_id === undefined ? undefined : { user_id: sent.user_id }),
    ...(sent.anonymous_id === undefined ? undefined : { anonymous_id: sent.anonymous_id }),
    ...(sent.url === undefined ? undefined : { url: sent.url }),
    ...(sent.referrer === undefined ? undefined : { referrer: sent.referrer }),
    ...(sent.country === undefined ? undefined : { country: sent.country.toUpperCase() }),
    ...(sent.device_type === undefined ? undefined : { device_type: sent.device_type.toLowerCase() }),
    ...(properties === undefined ? undefined : { properties }),
    ...(types === undefined ? undefined : { property_types: types }),
    received_at: receivedAt,
  }
  return { row, clientId: sent.event_id !== undefined }
}

/** Null prototypes, so that a field named `__proto__` is a field like any other. */
function splitFields(
  value: Record<string, unknown>,
): [known: Record<string, unknown>, unknown: Record<string, unknown> | undefined] {
  const known: Record<string, unknown> = {}
  let unknown: Record<string, unknown> | undefined
  for (const name of Object.keys(value)) {
    if (knownFields.has(name)) known[name] = value[name]
    else {
      unknown ??= Object.create(null) as Record<string, unknown>
      unknown[name] = value[name]
    }
  }
  return [known, unknown]
}

/** A per-event error of a batch for an event over 32 KiB; alone it is a 413 of the body. */
export function eventTooLarge(): SluiceError {
  return new SluiceError(413, { message: `Event is larger than ${eventLimits.eventBytesMax} bytes` })
}

/** The client's id, to name an event in a list of errors; undefined when it is no id at all. */
export function eventIdOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('event_id' in value)) return undefined
  const id = value.event_id
  return typeof id === 'string' && id !== '' && !exceeds(id, eventLimits.eventIdLengthMax)
    ? id.toWellFormed()
    : undefined
}
