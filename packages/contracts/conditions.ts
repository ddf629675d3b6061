import joi from 'joi'
import { patternLimits, patternProblem } from './pattern.ts'
import { propertyLimits } from './properties.ts'
import { exceeds } from './validate.ts'

/** The operators of the interface document, in its order. */
export const operators = [
  'equals',
  'not_equals',
  'contains',
  'not_contains',
  'starts_with',
  'ends_with',
  'in',
  'not_in',
  'greater_than',
  'greater_than_or_equal',
  'less_than',
  'less_than_or_equal',
  'matches',
  'exists',
  'not_exists',
] as const

export type Operator = (typeof operators)[number]

/** Fields of an event that a condition may name; `path` is that of its url, `referrer_host` that of its referrer. */
export const eventFields = [
  'event_type',
  'url',
  'referrer',
  'country',
  'device_type',
  'session_id',
  'user_id',
  'anonymous_id',
  'path',
  'referrer_host',
] as const

export type EventField = (typeof eventFields)[number]

/** Fields of a user, from imports: `user.<field>` or the bare name. */
export const userFields = ['email', 'name', 'company', 'plan'] as const

export type UserField = (typeof userFields)[number]

/** What a condition asks of an event (contract section 6), as the schemas below return it. */
export interface Condition {
  /** As sent: an event field, `properties.<name>`, `user.<field>` or a bare user field. `propertyOf` reads it. */
  property: string
  operator: Operator
  /** A list for `in` and `not_in`, absent for `exists` and `not_exists`, a text otherwise; a number is text here too. */
  value?: string | string[]
}

export interface Criteria {
  type: 'and' | 'or'
  /** Only of the outermost criteria: `user` lets every condition be met by another event. */
  scope?: 'event' | 'user'
  conditions: (Condition | Criteria)[]
}

/** Conditions that must all be met: a `filter` of stats, the `conditions` of a funnel's step. */
export type Filter = (Condition | Criteria)[]

/** Limits of contract section 6, and ours. Lengths count code points. */
export const conditionLimits = {
  /** The outermost criteria, or the filter's list, is the first level. */
  criteriaDepthMax: 3,
  /** Those of nested criteria included. */
  conditionsMax: 20,
  valueLengthMax: 2_048,
  /** Values of `in` and `not_in`. */
  valuesMax: 1_000,
  /** Of all values and properties of a criteria or filter together, in bytes of UTF-8: they travel in a URL of 1 MiB. */
  textBytesMax: 50_000,
  ...patternLimits,
} as const

/** What a condition's `property` names. */
export type Property =
  { kind: 'event'; field: EventField } | { kind: 'user'; field: UserField } | { kind: 'property'; name: string }

const propertyPrefix = 'properties.'
const userPrefix = 'user.'

/** Reads a condition's `property`; undefined when it names nothing. */
export function propertyOf(property: string): Property | undefined {
  if (property.startsWith(propertyPrefix)) return { kind: 'property', name: property.slice(propertyPrefix.length) }
  const field = property.startsWith(userPrefix) ? property.slice(userPrefix.length) : property
  if (isOneOf(userFields, field)) return { kind: 'user', field }
  if (isOneOf(eventFields, property)) return { kind: 'event', field: property }
  return undefined
}

export function isCriteria(item: Condition | Criteria): item is Criteria {
  return 'conditions' in item
}

/** Operators that compare numerically, with their sign. */
export const numberOperators = {
  greater_than: '>',
  greater_than_or_equal: '>=',
  less_than: '<',
  less_than_or_equal: '<=',
} as const satisfies Partial<Record<Operator, string>>

const encoder = new TextEncoder()

/** Decimal digits with sign, fraction and exponent; what else JavaScript or ClickHouse may read is no number. */
const numberPattern = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i

/** The number that a text stands for in comparisons; undefined when it is none, or is infinite. */
export function numberOf(text: string): number | undefined {
  const number = numberPattern.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(number) ? number : undefined
}

const conditionJson = {
  type: 'object',
  properties: {
    property: {
      type: 'string',
      description: `One of ${eventFields.join(', ')}; ${propertyPrefix}<name>; ${userFields.map((field) => userPrefix + field).join(', ')} and these by their bare names.`,
    },
    operator: { type: 'string', enum: operators },
    value: {
      description:
        'A text or a number; a list of them for in and not_in; none for exists and not_exists. Case matters but for countries, devices and hosts. The value of matches is an RE2 pattern, found anywhere in the text; it sees countries in capitals, devices and hosts in small letters. greater… and less… compare numbers.',
    },
  },
  required: ['property', 'operator'],
  additionalProperties: false,
}

/** JSON Schema of criteria with so many levels, itself being one; `others` are further fields. */
function criteriaJson(levels: number, others: object = {}): object {
  return {
    type: 'object',
    properties: {
      type: { type: 'string', enum: ['and', 'or'] },
      ...others,
      conditions: { ...conditionsJson(levels), minItems: 1 },
    },
    required: ['type', 'conditions'],
    additionalProperties: false,
  }
}

function conditionsJson(levels: number): object {
  if (levels === 1) return { type: 'array', items: conditionJson }
  const items = {
    type: 'object',
    description: 'A condition {property, operator, value}, or criteria {type, conditions}.',
    anyOf: [conditionJson, criteriaJson(levels - 1)],
  }
  return { type: 'array', items }
}

const { criteriaDepthMax, conditionsMax } = conditionLimits
const scopeJson = { type: 'string', enum: ['event', 'user'], default: 'event' }

/**
 * A cohort's criteria. Returns `Criteria` with values as text. Not required here; `null` and `""` are absent.
 * A wrong one is a 400 that names the field by its dotted path: `criteria.conditions.0.operator`.
 */
export const criteriaSchema: joi.Schema<Criteria> = tree((value, reader) => reader.criteria(value, [], 1))
  .meta(criteriaJson(criteriaDepthMax, { scope: scopeJson }))
  .description(
    `At most ${conditionsMax} conditions in ${criteriaDepthMax} levels. With scope user each may be met by another event.`,
  )

/**
 * A list of conditions and criteria that must all be met: stats' `filter`, the `conditions` of a funnel's step. Also
 * taken as JSON text, as a query string has it. Returns `Filter`; the list is the first level of depth.
 */
export const filterSchema: joi.Schema<Filter> = tree((value, reader) =>
  reader.items(typeof value === 'string' ? reader.json(value) : value, [], 1),
)
  .meta(conditionsJson(criteriaDepthMax))
  .description(`Conditions that must all be met; at most ${conditionsMax}, nested ones included.`)

type Path = readonly (string | number)[]

/** A form that is refused; `reason` is undefined when the field is missing. */
class Refusal extends Error {
  readonly path: Path
  readonly reason: string | undefined

  constructor(path: Path, reason?: string) {
    super(reason)
    this.path = path
    this.reason = reason
  }
}

function tree<T>(read: (value: unknown, reader: Reader) => T): joi.AnySchema<T> {
  return joi
    .any<T>()
    .empty(joi.valid('', null))
    .custom((value: unknown, helpers) => {
      try {
        return read(value, new Reader())
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const at = helpers.state.localize?.([...(helpers.state.path ?? []), ...error.path]) ?? helpers.state
        return error.reason === undefined
          ? helpers.error('any.required', {}, at)
          : helpers.error('condition', { reason: error.reason }, at)
      }
    })
    .messages({ condition: '{{#reason}}' })
}

/**
 * Reads conditions in plain code: of joi's alternatives one hears only that none fits, and its copies of objects make a
 * prototype of a key named `__proto__`.
 */
class Reader {
  #conditions = 0
  #bytes = 0

  json(text: string): unknown {
    try {
      return JSON.parse(text)
    } catch {
      throw new Refusal([], 'must be JSON: a list of conditions')
    }
  }

  criteria(value: unknown, path: Path, depth: number): Criteria {
    const { type, scope, conditions } = fieldsOf(value, path, 'must be an object {type, conditions}')
    required(type, [...path, 'type'])
    if (type !== 'and' && type !== 'or') throw new Refusal([...path, 'type'], 'must be one of: and, or')
    if (isGiven(scope)) {
      if (depth > 1) throw new Refusal([...path, 'scope'], 'is for the outermost criteria')
      if (scope !== 'event' && scope !== 'user') throw new Refusal([...path, 'scope'], 'must be one of: event, user')
    }
    required(conditions, [...path, 'conditions'])
    const items = this.items(conditions, [...path, 'conditions'], depth)
    if (items.length === 0) throw new Refusal([...path, 'conditions'], 'must hold at least one condition')
    refuseOthers(value, ['type', 'scope', 'conditions'], path)
    return { type, ...(isGiven(scope) ? { scope: scope as 'event' | 'user' } : {}), conditions: items }
  }

  items(value: unknown, path: Path, depth: number): Filter {
    if (!Array.isArray(value)) throw new Refusal(path, 'must be a list of conditions')
    return value.map((item: unknown, index) => this.#item(item, [...path, index], depth))
  }

  #item(value: unknown, path: Path, depth: number): Condition | Criteria {
    const fields = fieldsOf(value, path, 'must be an object {property, operator, value}')
    if (!('conditions' in fields || 'type' in fields)) return this.#condition(fields, path)
    if (depth < conditionLimits.criteriaDepthMax) return this.criteria(value, path, depth + 1)
    throw new Refusal(path, `is nested deeper than ${conditionLimits.criteriaDepthMax} levels`)
  }

  #condition(fields: Fields, path: Path): Condition {
    this.#conditions += 1
    if (this.#conditions > conditionLimits.conditionsMax) {
      throw new Refusal([], `must hold at most ${conditionLimits.conditionsMax} conditions`)
    }
    const property = this.#property(fields.property, [...path, 'property'])
    const operator = readOperator(fields.operator, [...path, 'operator'])
    const value = this.#value(fields.value, operator, [...path, 'value'])
    refuseOthers(fields, ['property', 'operator', 'value'], path)
    return { property, operator, ...(value === undefined ? {} : { value }) }
  }

  #property(value: unknown, path: Path): string {
    required(value, path)
    const property = this.#text(value, path, propertyPrefix.length + propertyLimits.keyLengthMax)
    const read = propertyOf(property)
    if (read === undefined || (read.kind === 'property' && read.name === '')) {
      throw new Refusal(
        path,
        `must be one of: ${eventFields.join(', ')}, ${propertyPrefix}<name>, ${userFields.map((field) => userPrefix + field).join(', ')}`,
      )
    }
    return property
  }

  #value(value: unknown, operator: Operator, path: Path): string | string[] | undefined {
    switch (operator) {
      case 'exists':
      case 'not_exists':
        if (isGiven(value)) throw new Refusal(path, `must be left out: ${operator} takes none`)
        return undefined
      case 'in':
      case 'not_in':
        return this.#list(value, operator, path)
      case 'matches': {
        const pattern = this.#single(value, path, conditionLimits.patternLengthMax)
        const problem = patternProblem(pattern)
        if (problem !== undefined) throw new Refusal(path, problem)
        return pattern
      }
      case 'greater_than':
      case 'greater_than_or_equal':
      case 'less_than':
      case 'less_than_or_equal': {
        const text = this.#single(value, path, conditionLimits.valueLengthMax)
        if (numberOf(text) === undefined) throw new Refusal(path, `must be a finite number, as ${operator} compares`)
        return text
      }
      case 'equals':
      case 'not_equals':
      case 'contains':
      case 'not_contains':
      case 'starts_with':
      case 'ends_with':
        return this.#single(value, path, conditionLimits.valueLengthMax)
    }
  }

  #single(value: unknown, path: Path, max: number): string {
    required(value, path)
    if (Array.isArray(value)) throw new Refusal(path, 'must be a text or a number: lists are for in and not_in')
    return this.#text(value, path, max)
  }

  #list(value: unknown, operator: Operator, path: Path): string[] {
    required(value, path)
    if (!Array.isArray(value)) throw new Refusal(path, `must be a list of texts, as ${operator} takes one`)
    if (value.length === 0) throw new Refusal(path, 'must hold at least one value')
    if (value.length > conditionLimits.valuesMax) {
      throw new Refusal(path, `must contain at most ${conditionLimits.valuesMax} items`)
    }
    return value.map((item: unknown, index) => {
      if (!isGiven(item)) throw new Refusal([...path, index], 'must not be empty')
      return this.#text(item, [...path, index], conditionLimits.valueLengthMax)
    })
  }

  /** A text as it would be stored: numbers and booleans as JSON writes them. */
  #text(value: unknown, path: Path, max: number): string {
    if (typeof value === 'number' && !Number.isFinite(value)) throw new Refusal(path, 'must be a finite number')
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
      throw new Refusal(path, 'must be a text or a number')
    }
    const text = String(value)
    if (exceeds(text, max)) throw new Refusal(path, `exceeds maximum length of ${max}`)
    if (text.includes('\0')) throw new Refusal(path, 'must not contain NUL characters')
    this.#bytes += encoder.encode(text).length
    if (this.#bytes > conditionLimits.textBytesMax) {
      throw new Refusal([], `must not hold more than ${conditionLimits.textBytesMax} bytes of values and properties`)
    }
    return text.toWellFormed()
  }
}

function readOperator(value: unknown, path: Path): Operator {
  required(value, path)
  if (!isOneOf(operators, value)) throw new Refusal(path, `must be one of: ${operators.join(', ')}`)
  return value
}

type Fields = Readonly<Record<string, unknown>>

function fieldsOf(value: unknown, path: Path, reason: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Refusal(path, reason)
  return value as Fields
}

function refuseOthers(value: unknown, known: readonly string[], path: Path): void {
  const other = Object.keys(value as object).find((key) => !known.includes(key))
  if (other !== undefined) throw new Refusal([...path, other], 'is not known')
}

function required(value: unknown, path: Path): void {
  if (!isGiven(value)) throw new Refusal(path)
}

/** `null` and `""` are absent, as in every body. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}

function isOneOf<T extends string>(values: readonly T[], value: unknown): value is T {
  return (values as readonly unknown[]).includes(value)
}
