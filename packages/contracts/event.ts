import joi from 'joi'
import { invalidFormat, SluiceError } from './errors.ts'
import type { EventRow } from './event-row.ts'
import { deviceTypes, eventLimits, type SentEvent } from './event-fields.ts'
import { type FlatProperties, flattenProperties, propertyLimits } from './properties.ts'
import type { Environment } from './scopes.ts'
import { exceeds, text, validate } from './validate.ts'

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
  .meta({ minimum: eventLimits.timestampMsMin })
  .description('Unix ms, a fraction is dropped; not over 24 hours ahead. Default: the time of receipt.')
  .messages({
    'timestamp.past': 'must be Unix time in milliseconds, not before 1971',
    'timestamp.future': 'must not be more than 24 hours in the future',
  })

/** The known fields, in the order of the contract's table: the first problem in this order is reported. */
const fields = {
  site_id: text(eventLimits.siteIdLengthMax).required().example('my-site'),
  event_type: text(eventLimits.eventTypeLengthMax).required().example('page_view').description('Any value.'),
  timestamp,
  session_id: text(eventLimits.sessionIdLengthMax)
    .example('s1')
    .description('Without it the event counts in no metric of sessions.'),
  user_id: text(eventLimits.userIdLengthMax).example('ada'),
  url: text(eventLimits.urlLengthMax).example('https://example.com/pricing'),
  referrer: text(eventLimits.referrerLengthMax),
  country: joi
    .string()
    .empty(joi.valid('', null))
    .pattern(/^[A-Za-z0-9]{2}$/)
    .messages({ 'string.pattern.base': 'must be 2 letters or digits' })
    .description('2 letters or digits, stored upper-case.'),
  device_type: joi
    .string()
    .empty(joi.valid('', null))
    .valid(...deviceTypes)
    .insensitive(),
  anonymous_id: text(eventLimits.anonymousIdLengthMax).description('Who it is before a `user_id` is known.'),
  event_id: text(eventLimits.eventIdLengthMax).description(
    'Events with the same site, id and timestamp are one event, however often sent; without timestamp, copies within 15 minutes are one. Default: a UUIDv7.',
  ),
  properties: joi
    .object()
    .empty(joi.valid('', null))
    .example({ plan: 'pro' })
    .description(
      `At most ${propertyLimits.keysMax} keys of at most ${propertyLimits.keyLengthMax}, after nested objects are flattened with dots: texts of at most ${propertyLimits.stringLengthMax}, numbers, booleans; lists are kept as JSON text; null is absent. Unknown fields of the event are properties too.`,
    ),
}

export const sentEvent = joi.object<SentEvent>(fields)
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
 * Throws SluiceError 400 for the first problem, in the order of the contract's table. The whole rule, with its words:
 * plain-event.ts only answers sooner.
 */
export function toEventRow(value: unknown, receipt: Receipt): { row: EventRow; clientId: boolean } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidFormat('an event must be a JSON object')
  }
  const [known, unknown] = splitFields(value as Record<string, unknown>)
  const sent = validate(sentEvent, known, { receivedAt: receipt.receivedAt })
  const flat = flattenProperties(unknown, sent.properties as Record<string, unknown> | undefined)
  return { row: toRow(sent, flat, receipt), clientId: sent.event_id !== undefined }
}

function toRow(
  sent: SentEvent,
  { properties, types }: FlatProperties,
  { receivedAt, environment, newEventId }: Receipt,
): EventRow {
  const row: EventRow = {
    site_id: sent.site_id,
    environment,
    event_type: sent.event_type,
    timestamp: sent.timestamp ?? receivedAt,
    event_id: sent.event_id ?? newEventId(),
    received_at: receivedAt,
  }
  if (sent.timestamp === undefined && sent.event_id !== undefined) row.undated = 1
  if (sent.session_id !== undefined) row.session_id = sent.session_id
  if (sent.user_id !== undefined) row.user_id = sent.user_id
  if (sent.anonymous_id !== undefined) row.anonymous_id = sent.anonymous_id
  if (sent.url !== undefined) row.url = sent.url
  if (sent.referrer !== undefined) row.referrer = sent.referrer
  if (sent.country !== undefined) row.country = sent.country.toUpperCase()
  if (sent.device_type !== undefined) row.device_type = sent.device_type.toLowerCase()
  if (properties !== undefined) row.properties = properties
  if (types !== undefined) row.property_types = types
  return row
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
