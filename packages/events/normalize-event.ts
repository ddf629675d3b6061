import joi from 'joi'
import { type EventInput, type EventRow, textLengthsMax } from '@sluice/contracts/event-columns'
import { deviceTypes, eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import type { Environment } from '@sluice/contracts/scopes'
import { AppError, invalidFormat } from '@sluice/runtime/errors'
import { exceeds, text, validate } from '@sluice/runtime/validate'
import { type FlatProperties, flattenProperties } from './flatten-properties.ts'

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

/** The known fields, in the order of docs/http-interface.md#event-fields; the first problem in this order is reported. */
const fields = {
  site_id: text(textLengthsMax.site_id).required().example('my-site'),
  event_type: text(textLengthsMax.event_type).required().example('page_view').description('Any value.'),
  timestamp,
  session_id: text(textLengthsMax.session_id)
    .example('s1')
    .description('Without it the event counts in no metric of sessions.'),
  user_id: text(textLengthsMax.user_id).example('ada'),
  url: text(textLengthsMax.url).example('https://example.com/pricing'),
  referrer: text(textLengthsMax.referrer),
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
  anonymous_id: text(textLengthsMax.anonymous_id).description('Who it is before a `user_id` is known.'),
  event_id: text(textLengthsMax.event_id).description(
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

/** The known fields of an event as a client sends it; unknown ones are validated as properties. */
export const eventSchema = joi.object<EventInput>(fields)
const knownFields: ReadonlySet<string> = new Set(Object.keys(fields))

export interface IngestContext {
  /** Time of receipt, Unix ms. */
  receivedAt: number
  /** Environment of the credential, in which the event is stored. */
  environment: Environment
  /** Creates the `event_id` of an event without one. */
  newEventId: () => string
}

/**
 * Validates one event (docs/http-interface.md#event-fields) and normalises it to its row: country in upper case,
 * device_type in lower case, without fractions of milliseconds, with flattened properties, and with unknown top-level
 * fields as properties. `clientId` is true when the client sent the `event_id`: only then copies of the event can exist.
 * Throws an AppError (400) for the first problem in the order of that section. This function defines the rules;
 * encode-row-fast.ts is a faster path for most valid events.
 */
export function normalizeEvent(value: unknown, context: IngestContext): { row: EventRow; clientId: boolean } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidFormat('an event must be a JSON object')
  }
  const [known, unknown] = splitFields(value as Record<string, unknown>)
  const sent = validate(eventSchema, known, { receivedAt: context.receivedAt })
  const flat = flattenProperties(unknown, sent.properties as Record<string, unknown> | undefined)
  return { row: toRow(sent, flat, context), clientId: sent.event_id !== undefined }
}

function toRow(
  sent: EventInput,
  { properties, types }: FlatProperties,
  { receivedAt, environment, newEventId }: IngestContext,
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

/** The error of an event over 32 KiB in a batch; a single event of that size is a 413 of the body. */
export function eventTooLarge(): AppError {
  return new AppError('too_large', { message: `Event is larger than ${eventLimits.eventBytesMax} bytes` })
}

/** The client's id, which names an event in a list of errors; undefined for values that are no id. */
export function eventIdOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('event_id' in value)) return undefined
  const id = value.event_id
  return typeof id === 'string' && id !== '' && !exceeds(id, textLengthsMax.event_id) ? id.toWellFormed() : undefined
}
