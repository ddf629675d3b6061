import joi from 'joi'
import { type EventInput, textLengthsMax } from '@sluice/contracts/event-columns'
import { deviceTypes, eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import { timestampErrors } from '@sluice/contracts/timestamp-errors'
import { doubleOf } from '@sluice/runtime/parse-exactly'
import { text } from '@sluice/runtime/schemas'
import { validate } from '@sluice/runtime/validate'

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
  .description(
    'Time of the event, Unix ms; a fraction is dropped. It may be at most 24 hours in the future. Default: the time of receipt.',
  )
  .messages({
    'number.base': 'must be a number: Unix time in milliseconds',
    'timestamp.past': timestampErrors.past,
    'timestamp.future': timestampErrors.future,
  })

/**
 * The known fields, in the order of docs/http-interface.md#event-fields; the first problem in this order is reported.
 */
const fields = {
  site_id: text(textLengthsMax.site_id).required().example('my-site'),
  event_type: text(textLengthsMax.event_type)
    .required()
    .example('page_view')
    .description('Name of the event; any value is allowed.'),
  timestamp,
  session_id: text(textLengthsMax.session_id)
    .example('s1')
    .description('An event without it is not counted in metrics of sessions.'),
  user_id: text(textLengthsMax.user_id).example('ada'),
  url: text(textLengthsMax.url).example('https://example.com/pricing'),
  referrer: text(textLengthsMax.referrer),
  country: joi
    .string()
    .empty(joi.valid('', null))
    .pattern(/^[A-Za-z0-9]{2}$/)
    .messages({ 'string.pattern.base': 'must be 2 letters or digits' })
    .description('2 letters or digits; they are stored in upper case.'),
  device_type: joi
    .string()
    .empty(joi.valid('', null))
    .valid(...deviceTypes)
    .insensitive(),
  anonymous_id: text(textLengthsMax.anonymous_id).description('Identifies a person before a `user_id` is known.'),
  event_id: text(textLengthsMax.event_id).description(
    'Events with the same site, `event_id` and `timestamp` are one event, however often they are sent. Without `timestamp`, copies that arrive within 15 minutes are one event. Default: a UUIDv7.',
  ),
  properties: joi
    .object()
    .empty(joi.valid('', null))
    .example({ plan: 'pro' })
    .description(
      `At most ${propertyLimits.keysMax} properties with names of at most ${propertyLimits.keyLengthMax} characters. Values are texts of at most ${propertyLimits.stringLengthMax} characters, numbers and booleans. Nested objects are flattened with dots before they are counted, lists are stored as JSON text, and null means that the property is absent. Unknown fields of the event become properties, too.`,
    ),
}

/** The known fields of an event as a client sends it. All other fields are properties, with any name. */
export const eventSchema = joi.object<EventInput>(fields)
/** Names of the fields of an event; all other fields are properties. */
export const knownFields: ReadonlySet<string> = new Set(Object.keys(fields))

/**
 * Validates the known fields of an event that `encodeEvent` has refused, in order to word the error. Throws the
 * AppError (400) of the first problem, in the order of docs/http-interface.md#event-fields. If the fields are valid,
 * returns them without absent ones.
 */
export function validateKnownFields(event: Readonly<Record<string, unknown>>, receivedAt: number): EventInput {
  const known: Record<string, unknown> = {}
  for (const name of Object.keys(event)) {
    if (!knownFields.has(name)) continue
    // A number that was parsed with all digits must be a number for the schema.
    known[name] = doubleOf(event[name])
  }
  return validate(eventSchema, known, { receivedAt })
}
