import joi from 'joi'
import { invalidField, invalidFormat, missingField } from './errors.ts'
import { holdsKey, redacted } from './redact.ts'

/** Reasons of `Invalid field`; what is not listed keeps joi's own words. A schema's `.messages()` win over both. */
const reasons: joi.LanguageMessages = Object.fromEntries(
  Object.entries({
    'any.only': 'must be one of: {{#valids}}',
    'array.max': 'must contain at most {{#limit}} items',
    'object.base': 'must be an object',
    'object.max': 'must have at most {{#limit}} keys',
    'object.unknown': 'is not known',
    'any.unknown': 'is not known',
    'string.empty': 'must not be empty',
    'string.max': 'exceeds maximum length of {{#limit}}',
    'string.min': 'must have at least {{#limit}} characters',
    'string.blank': 'must not be blank',
    'string.nul': 'must not contain NUL characters',
    'time.seconds': 'must be Unix time in milliseconds, not in seconds',
    'number.infinity': 'must be a finite number',
    'number.min': 'must be at least {{#limit}}',
    'number.max': 'must be at most {{#limit}}',
    'number.unsafe': `must be from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}`,
    // Compiled once, because joi compiles texts at each call.
  }).map(([code, reason]) => [code, joi.expression(reason) as string]),
)

const noObject = 'body must be a JSON object'

/**
 * Checks `value` against `schema` and returns what the schema makes of it (defaults filled in, absent fields left out).
 * Throws a 400 (docs/http-interface.md#errors) for the first problem in the order of the schema's fields, unknown
 * fields last: `Missing required field: <path>` or `Invalid field: <path> <reason>` with dotted paths, and
 * `Invalid format: <reason>` when the value itself is no such object.
 *
 * Values are not converted: `"1"` is no number. A schema with `.prefs({ convert: true })` gets joi's conversions.
 * `context` is what custom rules read, e.g. the time of receipt. They may note in a copy of it what they have counted.
 */
export function validate<T>(schema: joi.ObjectSchema<T>, value: unknown, context: joi.Context = {}): T {
  if (value === undefined) throw invalidFormat(noObject)
  const result = schema.validate(value, {
    abortEarly: true,
    convert: false,
    context: { ...context },
    errors: { label: false, wrap: { array: false, label: false, string: false } },
    messages: reasons,
  })
  const problem = result.error?.details[0]
  // joi copies objects by assignment, which sets the prototype of the copy, and does not see this field.
  const hasPrototype = typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__')
  if (hasPrototype && (problem === undefined || problem.type === 'object.unknown')) {
    throw invalidField('__proto__', 'is not known')
  }
  if (problem === undefined) return result.value as T

  const field = problem.path.map((name) => shownName(String(name))).join('.')
  if (problem.type === 'any.required') throw missingField(field)
  const refused: unknown = problem.context?.value
  const isAbsent = refused === '' || refused === null
  if (isAbsent && isRequired(schema, problem.path)) throw missingField(field)
  if (problem.path.length === 0) throw invalidFormat(problem.type === 'object.base' ? noObject : problem.message)
  throw invalidField(field, problem.message)
}

/**
 * A name as errors show it. It is cut, because a sender chooses it, and responses and logs must not repeat a megabyte.
 * A name that contains a key is not shown, and an empty one in quotes.
 */
export function shownName(name: string): string {
  if (holdsKey(name)) return redacted
  if (name === '') return '""'
  return name.slice(0, 64).toWellFormed()
}

function isRequired(schema: joi.ObjectSchema, path: readonly (string | number)[]): boolean {
  try {
    return schema.extract(path.map(String))._flags.presence === 'required'
  } catch {
    // An item of a list, which extract can't reach.
    return false
  }
}
