import joi from 'joi'
import { durationMs, unitMs } from './durations.ts'

/**
 * A text of at most `max` code points (docs/http-interface.md#event-text): `""` and `null` mean absent, so that a
 * required one is then missing; NUL is refused; lone surrogates become U+FFFD, as UTF-8 has no form for them.
 */
export function text(max: number): joi.StringSchema {
  return joi
    .string()
    .empty(joi.valid('', null))
    .custom((value: string, helpers) => {
      if (hasMoreCodePoints(value, max)) return helpers.error('string.max', { limit: max })
      if (value.includes('\0')) return helpers.error('string.nul')
      return value.toWellFormed()
    })
    .meta({ maxLength: max, pattern: '^[^\\u0000]*$' })
}

/** A name for people: a text that holds more than white space. */
export function nameText(max: number): joi.StringSchema {
  return text(max)
    .custom((value: string, helpers) => (/\S/.test(value) ? value : helpers.error('string.blank')))
    .meta({ pattern: '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$' })
}

/** The schema of a text that is one of `values`. */
export function enumText(values: readonly string[]): joi.StringSchema {
  return joi.string().valid(...values)
}

/**
 * The schema of an object within a body: a field `__proto__` is refused as any other unknown field. joi alone would
 * drop it, as it copies objects.
 */
export function nestedObject<T>(schema: joi.ObjectSchema<T>): joi.ObjectSchema<T> {
  return schema.meta({ additionalProperties: false }).custom((value: T, helpers) => {
    if (!Object.hasOwn(helpers.original as object, '__proto__')) return value
    const path = [...(helpers.state.path ?? []), '__proto__']
    return helpers.error('object.unknown', {}, helpers.state.localize?.(path) ?? helpers.state)
  })
}

/**
 * joi checks all items of an array before it checks their number. That is too much work where items may hold regular
 * expressions, so this type checks the number first.
 */
const root = joi.extend({
  type: 'array',
  base: joi.array(),
  validate: (value: readonly unknown[], { schema, error }: joi.CustomHelpers) => {
    const limit = schema.$_getRule('max')?.args?.limit as number | undefined
    return limit === undefined || value.length <= limit ? { value } : { value, errors: [error('array.max', { limit })] }
  },
}) as typeof joi

/** The schema of an array, as `joi.array()`, which refuses too many items before it checks them. */
export function boundedArray(): joi.ArraySchema {
  return root.array()
}

/** True when `value` has more than `max` code points; most texts are decided by their length in UTF-16 units. */
export function hasMoreCodePoints(value: string, max: number): boolean {
  if (value.length <= max) return false
  if (value.length > max * 2) return true
  return Array.from(value).length > max
}

/** Dates since 1973 in seconds. Read as milliseconds they would lie in 1970, when there were no events. */
const seconds = { minimum: 100_000_000, exclusiveMaximum: 31_536_000_000 }

/**
 * Returns a schema of times in ms with the rule that it rejects dates in seconds, because a query with such a date
 * would find no events. Smaller numbers, such as 0, stand for the beginning of time.
 */
export function rejectSeconds<S extends joi.AnySchema>(times: S): S {
  return times
    .custom((value: number, helpers) =>
      value >= seconds.minimum && value < seconds.exclusiveMaximum ? helpers.error('time.seconds') : value,
    )
    .meta({ not: { type: 'number', ...seconds } })
}

/** Unix time in ms, up to what a Date can hold. */
export const time = rejectSeconds(joi.number().integer().min(0).max(8_640_000_000_000_000))

/** `<n>s|m|h|d`, e.g. `7d` or `0s`, as ms up to `maxMs` (docs/http-interface.md#durations). */
export function duration(maxMs: number): joi.StringSchema {
  return joi
    .string()
    .custom((value: string, helpers) => {
      const ms = durationMs(value)
      if (ms === undefined) return helpers.error('duration')
      return ms <= maxMs ? ms : helpers.error('duration.max', { max: `${maxMs / unitMs.d}d` })
    })
    .meta({
      pattern: '^[0-9]{1,9}[smhd]$',
      description: `A number and a unit, s, m, h or d; at most ${maxMs / unitMs.d}d.`,
    })
    .messages({
      duration: 'must be a number and a unit, s, m, h or d, e.g. 7d',
      'duration.max': 'must be at most {{#max}}',
    })
}
