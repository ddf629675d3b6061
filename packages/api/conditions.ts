import joi from 'joi'
import {
  type Condition,
  conditionLimits,
  type Criteria,
  eventFields,
  type Filter,
  isOneOf,
  numberOf,
  type Operator,
  operators,
  propertyOf,
  propertyPrefix,
  userFields,
  userPrefix,
} from '@sluice/contracts/conditions'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { isJsonObject, type JsonObject } from '@sluice/runtime/json-object'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { parameterMessages } from './parameters.ts'
import { checkPattern, patternsTooLarge } from './pattern.ts'

const encoder = new TextEncoder()

const conditionJson = {
  type: 'object',
  properties: {
    property: {
      type: 'string',
      description: `One of ${eventFields.join(', ')}; ${propertyPrefix}<name>; or ${userFields.map((field) => userPrefix + field).join(', ')}, also without the prefix ${userPrefix}`,
    },
    operator: { type: 'string', enum: operators },
    value: {
      description:
        'A text or a number; for in and not_in, a list of texts or numbers; for exists and not_exists, no value. Comparisons are case-sensitive, except for countries, devices and hosts. The value of matches is an RE2 pattern that may match anywhere in the text, where . also matches a line break; it is compared with countries in upper case, and with devices and hosts in lower case. greater_than, less_than and their variants compare numbers.',
    },
  },
  required: ['property', 'operator'],
  additionalProperties: false,
}

const { criteriaDepthMax, conditionsMax, patternStepsTotalMax } = conditionLimits

/** Names of the JSON Schemas of criteria, outermost first; each holds conditions, and criteria of the next name. */
const levels = ['Criteria', 'NestedCriteria', 'InnermostCriteria'] as const satisfies {
  length: typeof criteriaDepthMax
}

/** The document is not recursive, because it states the depth. */
const $defs = {
  Condition: conditionJson,
  Criteria: criteriaJson(0, {
    scope: {
      type: 'string',
      enum: ['event', 'user'],
      // Not a `default`, which generators of clients read as a value that every answer has.
      description: 'Default: `event`. With `user`, different events may meet the conditions.',
    },
  }),
  NestedCriteria: criteriaJson(1),
  InnermostCriteria: criteriaJson(2),
}

/** JSON Schema of the criteria at `level`; `others` are further fields. */
function criteriaJson(level: number, others: object = {}): object {
  return {
    type: 'object',
    properties: {
      type: { type: 'string', enum: ['and', 'or'] },
      ...others,
      conditions: { ...conditionsJson(level), minItems: 1 },
    },
    required: ['type', 'conditions'],
    additionalProperties: false,
  }
}

/** JSON Schema of the list of conditions at `level`. */
function conditionsJson(level: number): { type: 'array'; items: object } {
  const condition = { $ref: '#/components/schemas/Condition' }
  const next = levels[level + 1]
  if (next === undefined) return { type: 'array', items: condition }
  const items = {
    type: 'object',
    description: 'Either a condition {property, operator, value}, or criteria {type, conditions}.',
    // Generators of clients merge the objects of an `anyOf` into one, in which every field is required.
    oneOf: [condition, { $ref: `#/components/schemas/${next}` }],
  }
  return { type: 'array', items }
}

const { Criteria: _, ...filterDefs } = $defs

/**
 * Schema of a cohort's criteria, whose value is `Criteria` with values as text. The field is optional; `null` and `""`
 * count as absent. Errors name the invalid field by its dotted path, e.g. `criteria.conditions.0.operator`.
 */
export const criteriaSchema: joi.Schema<Criteria> = conditionTree((value, reader) => reader.readCriteria(value, [], 1))
  .meta({ $ref: '#/components/schemas/Criteria', $defs })
  .description(
    `Criteria may have at most ${conditionsMax} conditions in ${criteriaDepthMax} levels. Their regular expressions may have at most ${patternStepsTotalMax} steps together. With scope user, different events may meet the conditions.`,
  )

function filterOf(read: (value: unknown, reader: Reader) => unknown): joi.Schema<Filter> {
  return conditionTree((value, reader) => reader.readItems(read(value, reader), [], 1))
    .meta({ ...conditionsJson(0), $defs: filterDefs })
    .description(
      `A list of conditions, all of which must be met. At most ${conditionsMax} conditions are allowed, including nested ones. Their regular expressions may have at most ${patternStepsTotalMax} steps together.`,
    )
}

/**
 * Schema of a list of conditions and criteria that must all be met: the `filter` of an export, the `conditions` of a
 * step of a funnel. The value is a `Filter`; the list is the first level of depth.
 */
export const filterSchema = filterOf((value) => value)

/** Takes the list as JSON text, too: the `filter` of stats in a batch. */
export const filterOrText = filterOf((value, reader) => (typeof value === 'string' ? reader.parseJson(value) : value))

/** The list as JSON text, in a parameter of a query string. */
export const filterParameter: joi.Schema<Filter> = filterOf((value, reader) => {
  // A parameter that is sent twice comes as a list.
  if (typeof value !== 'string') throw new InvalidConditionError([], parameterMessages['string.base'])
  return reader.parseJson(value)
})
  .meta({ type: 'string', contentMediaType: 'application/json', items: undefined })
  .example('[{"property":"properties.plan","operator":"equals","value":"pro"}]')

/** A filter as an answer has it; null: none. */
export const filterOrNull = joi
  .any<Filter | null>()
  .meta({ ...conditionsJson(0), $defs: filterDefs, type: ['array', 'null'] })

type Path = readonly (string | number)[]

/** An invalid field of conditions; `reason` is undefined if the field is missing. */
class InvalidConditionError extends Error {
  readonly path: Path
  readonly reason: string | undefined

  constructor(path: Path, reason?: string) {
    super(reason)
    this.path = path
    this.reason = reason
  }
}

function conditionTree<T>(read: (value: unknown, reader: Reader) => T): joi.AnySchema<T> {
  return joi
    .any<T>()
    .empty(joi.valid('', null))
    .custom((value: unknown, helpers) => {
      try {
        return read(value, new Reader((helpers.prefs.context ?? {}) as PatternCount))
      } catch (error) {
        if (!(error instanceof InvalidConditionError)) throw error
        const at = helpers.state.localize?.([...(helpers.state.path ?? []), ...error.path]) ?? helpers.state
        return error.reason === undefined
          ? helpers.error('any.required', {}, at)
          : helpers.error('condition', { reason: error.reason }, at)
      }
    })
    .messages({ condition: '{{#reason}}' })
}

/** The steps of the patterns that one call of `validate` has read so far. */
interface PatternCount {
  patternSteps?: number
}

/**
 * Parses conditions without joi: joi's alternatives report only that no alternative matches, and its copies of objects
 * turn a key `__proto__` into the prototype. One instance counts the conditions and bytes of one value. The steps of
 * patterns are counted for everything that is validated together, because one statement compares each event with the
 * patterns of all steps of a funnel.
 */
class Reader {
  #conditions = 0
  #bytes = 0
  readonly #patterns: PatternCount

  constructor(patterns: PatternCount) {
    this.#patterns = patterns
  }

  parseJson(text: string): unknown {
    try {
      return JSON.parse(text)
    } catch {
      throw new InvalidConditionError([], 'must be JSON: a list of conditions')
    }
  }

  readCriteria(value: unknown, path: Path, depth: number): Criteria {
    const { type, scope, conditions } = fieldsOf(value, path, 'must be an object {type, conditions}')
    requirePresent(type, [...path, 'type'])
    if (type !== 'and' && type !== 'or') throw new InvalidConditionError([...path, 'type'], 'must be one of: and, or')
    if (isPresent(scope)) {
      if (depth > 1) throw new InvalidConditionError([...path, 'scope'], 'is for the outermost criteria')
      if (scope !== 'event' && scope !== 'user')
        throw new InvalidConditionError([...path, 'scope'], 'must be one of: event, user')
    }
    requirePresent(conditions, [...path, 'conditions'])
    const items = this.readItems(conditions, [...path, 'conditions'], depth)
    if (items.length === 0) throw new InvalidConditionError([...path, 'conditions'], 'must hold at least one condition')
    rejectUnknownFields(value, ['type', 'scope', 'conditions'], path)
    return { type, ...(isPresent(scope) ? { scope: scope as 'event' | 'user' } : {}), conditions: items }
  }

  readItems(value: unknown, path: Path, depth: number): Filter {
    if (!Array.isArray(value)) throw new InvalidConditionError(path, 'must be a list of conditions')
    return value.map((item: unknown, index) => this.#item(item, [...path, index], depth))
  }

  #item(value: unknown, path: Path, depth: number): Condition | Criteria {
    const fields = fieldsOf(value, path, 'must be an object {property, operator, value}')
    if (!('conditions' in fields || 'type' in fields)) return this.#condition(fields, path)
    if (depth < conditionLimits.criteriaDepthMax) return this.readCriteria(value, path, depth + 1)
    throw new InvalidConditionError(path, `is nested deeper than ${conditionLimits.criteriaDepthMax} levels`)
  }

  #condition(fields: JsonObject, path: Path): Condition {
    this.#conditions += 1
    if (this.#conditions > conditionLimits.conditionsMax) {
      throw new InvalidConditionError([], `must contain at most ${conditionLimits.conditionsMax} conditions`)
    }
    const property = this.#property(fields.property, [...path, 'property'])
    const operator = readOperator(fields.operator, [...path, 'operator'])
    const value = this.#value(fields.value, operator, [...path, 'value'])
    rejectUnknownFields(fields, ['property', 'operator', 'value'], path)
    return { property, operator, ...(value === undefined ? {} : { value }) }
  }

  #property(value: unknown, path: Path): string {
    requirePresent(value, path)
    const property = this.#text(value, path, propertyPrefix.length + propertyLimits.keyLengthMax)
    const read = propertyOf(property)
    if (read === undefined || (read.kind === 'property' && read.name === '')) {
      throw new InvalidConditionError(
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
        if (isPresent(value)) throw new InvalidConditionError(path, `must be left out: ${operator} takes none`)
        return undefined
      case 'in':
      case 'not_in':
        return this.#list(value, operator, path)
      case 'matches': {
        const pattern = this.#single(value, path, conditionLimits.patternLengthMax)
        const checked = checkPattern(pattern)
        if ('problem' in checked) throw new InvalidConditionError(path, checked.problem)
        const patternSteps = (this.#patterns.patternSteps ?? 0) + checked.steps
        if (patternSteps > conditionLimits.patternStepsTotalMax) throw new InvalidConditionError([], patternsTooLarge)
        this.#patterns.patternSteps = patternSteps
        return pattern
      }
      case 'greater_than':
      case 'greater_than_or_equal':
      case 'less_than':
      case 'less_than_or_equal': {
        // Compared as doubles, which hold no more digits than the number.
        const sent = Number.isFinite(value) ? String(value) : value
        const text = this.#single(sent, path, conditionLimits.valueLengthMax)
        if (numberOf(text) === undefined)
          throw new InvalidConditionError(path, `must be a finite number, as ${operator} compares`)
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
    requirePresent(value, path)
    if (Array.isArray(value))
      throw new InvalidConditionError(path, 'must be a text or a number: lists are for in and not_in')
    return this.#text(value, path, max)
  }

  #list(value: unknown, operator: Operator, path: Path): string[] {
    requirePresent(value, path)
    if (!Array.isArray(value))
      throw new InvalidConditionError(path, `must be a list of texts, as ${operator} takes one`)
    if (value.length === 0) throw new InvalidConditionError(path, 'must hold at least one value')
    if (value.length > conditionLimits.valuesMax) {
      throw new InvalidConditionError(path, `must contain at most ${conditionLimits.valuesMax} items`)
    }
    return value.map((item: unknown, index) => {
      if (!isPresent(item)) throw new InvalidConditionError([...path, index], 'must not be empty')
      return this.#text(item, [...path, index], conditionLimits.valueLengthMax)
    })
  }

  /** A text as it would be stored: numbers and booleans as JSON writes them. */
  #text(value: unknown, path: Path, max: number): string {
    if (typeof value === 'number' && !Number.isFinite(value))
      throw new InvalidConditionError(path, 'must be a finite number')
    // Events keep all digits of such an integer. The rounded number would match none of them, or another one.
    if (Number.isInteger(value) && !Number.isSafeInteger(value))
      throw new InvalidConditionError(path, 'must be a text: a number cannot hold all digits of an integer beyond 2^53')
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
      throw new InvalidConditionError(path, 'must be a text or a number')
    }
    const text = String(value)
    if (hasMoreCodePoints(text, max)) throw new InvalidConditionError(path, `exceeds maximum length of ${max}`)
    if (text.includes('\0')) throw new InvalidConditionError(path, 'must not contain NUL characters')
    this.#bytes += encoder.encode(text).length
    if (this.#bytes > conditionLimits.textBytesMax) {
      throw new InvalidConditionError(
        [],
        `must not hold more than ${conditionLimits.textBytesMax} bytes of values and properties`,
      )
    }
    return text.toWellFormed()
  }
}

function readOperator(value: unknown, path: Path): Operator {
  requirePresent(value, path)
  if (!isOneOf(operators, value)) throw new InvalidConditionError(path, `must be one of: ${operators.join(', ')}`)
  return value
}

function fieldsOf(value: unknown, path: Path, reason: string): JsonObject {
  if (!isJsonObject(value)) throw new InvalidConditionError(path, reason)
  return value
}

function rejectUnknownFields(value: unknown, known: readonly string[], path: Path): void {
  const other = Object.keys(value as object).find((key) => !known.includes(key))
  if (other !== undefined) throw new InvalidConditionError([...path, other], 'is not known')
}

function requirePresent(value: unknown, path: Path): void {
  if (!isPresent(value)) throw new InvalidConditionError(path)
}

/** `null` and `""` are absent, as in every body. */
function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}
