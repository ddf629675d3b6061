import { describe, expect, test } from '@jest/globals'
import joi from 'joi'
import { conditionLimits, eventFields, operators, userFields } from '@sluice/contracts/conditions'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { AppError } from '@sluice/runtime/errors'
import { validate } from '@sluice/runtime/validate'
import { conditionLimitDescriptions } from '../../docs/limits.ts'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import { criteriaSchema, filterOrText } from './conditions.ts'
import { statusOf } from './error-status.ts'
import { toJsonSchema } from './openapi/schema.ts'
import type { JsonSchema } from './openapi/types.ts'
import { checkPattern } from './pattern.ts'

const body = joi.object({ criteria: criteriaSchema.required() })
const parameters = joi.object({ filter: filterOrText })

const readFilter = (value: unknown): unknown => (validate(parameters, { filter: value }) as { filter?: unknown }).filter
const readCriteria = (value: unknown): unknown =>
  (validate(body, { criteria: value }) as { criteria?: unknown }).criteria

/** The message of the 400 that `call` throws. */
function errorMessageOf(call: () => unknown): string {
  try {
    call()
  } catch (error) {
    if (error instanceof AppError && statusOf[error.code] === 400) return error.message
    throw error
  }
  throw new Error('was accepted')
}

const anyCondition = { property: 'url', operator: 'exists' }
const conditionOn = (operator: string, value?: unknown) => ({ property: 'properties.p', operator, value })
const criteriaOf = (type: string, ...conditions: unknown[]) => ({ type, conditions })

describe('the schemas accept', () => {
  test('every property name and return it unchanged', () => {
    const properties = [
      ...eventFields,
      ...userFields,
      ...userFields.map((field) => `user.${field}`),
      ...['plan', 'user.email', 'a.b', '__proto__', ' ', '😀', 'x'.repeat(propertyLimits.keyLengthMax)].map(
        (name) => `properties.${name}`,
      ),
    ]
    for (const property of properties) {
      expect(readFilter([{ property, operator: 'exists' }])).toStrictEqual([{ property, operator: 'exists' }])
    }
  })

  test.each([
    ['equals', 'x', 'x'],
    ['equals', 5, '5'],
    ['not_equals', -0.5, '-0.5'],
    ['contains', 1e-7, '1e-7'],
    ['equals', true, 'true'],
    ['starts_with', ' ', ' '],
    ['ends_with', 'a\uD83D', 'a\uFFFD'],
    ['in', ['a', 5, false], ['a', '5', 'false']],
    ['not_in', ['a'], ['a']],
    ['greater_than', 5, '5'],
    ['less_than', 1e21, '1e+21'],
    ['less_than', '-1.5e3', '-1.5e3'],
    ['greater_than_or_equal', '+.5', '+.5'],
    ['matches', '^a{2}$', '^a{2}$'],
    ['matches', 5, '5'],
    ['equals', 'x'.repeat(conditionLimits.valueLengthMax), 'x'.repeat(conditionLimits.valueLengthMax)],
    ['equals', '😀'.repeat(conditionLimits.valueLengthMax), '😀'.repeat(conditionLimits.valueLengthMax)],
  ])('the operator %s with the value %j and return the value as text', (operator, value, expected) =>
    expect(readFilter([conditionOn(operator, value)])).toStrictEqual([conditionOn(operator, expected)]),
  )

  test.each([undefined, null, ''])('exists with the value %j, which counts as absent', (value) => {
    expect(readFilter([{ ...anyCondition, value }])).toStrictEqual([anyCondition])
  })

  test('criteria nested in three levels', () => {
    const criteria = criteriaOf(
      'and',
      anyCondition,
      criteriaOf('or', anyCondition, criteriaOf('and', anyCondition, anyCondition)),
    )
    expect(readCriteria(criteria)).toStrictEqual(criteria)
    expect(readCriteria({ ...criteria, scope: 'user' })).toStrictEqual({ ...criteria, scope: 'user' })
    // The list of the filter is the first level.
    const filter = [anyCondition, criteriaOf('or', anyCondition, criteriaOf('and', anyCondition))]
    expect(readFilter(filter)).toStrictEqual(filter)
    expect(readFilter(JSON.stringify(filter))).toStrictEqual(filter)
  })

  test('an empty or absent filter', () => {
    expect(readFilter('[]')).toStrictEqual([])
    for (const absent of [undefined, null, '']) expect(readFilter(absent)).toBeUndefined()
  })

  test('the largest number of conditions', () => {
    const { conditionsMax } = conditionLimits
    const all = Array.from({ length: conditionsMax }, () => anyCondition)
    expect(readFilter(all)).toHaveLength(conditionsMax)
    expect(readFilter([criteriaOf('or', ...all)])).toHaveLength(1)
  })
})

describe('the schemas reject with the path and the reason', () => {
  test.each([
    [undefined, 'Missing required field: criteria'],
    ['', 'Missing required field: criteria'],
    ['x', 'Invalid field: criteria must be an object {type, conditions}'],
    [[anyCondition], 'Invalid field: criteria must be an object {type, conditions}'],
    [{ conditions: [anyCondition] }, 'Missing required field: criteria.type'],
    [criteriaOf('not', anyCondition), 'Invalid field: criteria.type must be one of: and, or'],
    [{ type: 'and' }, 'Missing required field: criteria.conditions'],
    [{ type: 'and', conditions: anyCondition }, 'Invalid field: criteria.conditions must be a list of conditions'],
    [criteriaOf('and'), 'Invalid field: criteria.conditions must hold at least one condition'],
    [{ ...criteriaOf('and', anyCondition), scope: 'all' }, 'Invalid field: criteria.scope must be one of: event, user'],
    [{ ...criteriaOf('and', anyCondition), negate: true }, 'Invalid field: criteria.negate is not known'],
    [
      criteriaOf('and', { ...criteriaOf('or', anyCondition), scope: 'user' }),
      'Invalid field: criteria.conditions.0.scope is for the outermost criteria',
    ],
    [
      criteriaOf('and', criteriaOf('or')),
      'Invalid field: criteria.conditions.0.conditions must hold at least one condition',
    ],
    [
      criteriaOf('and', anyCondition, criteriaOf('or', anyCondition, { operator: 'exists' })),
      'Missing required field: criteria.conditions.1.conditions.1.property',
    ],
    [
      criteriaOf('and', criteriaOf('or', criteriaOf('and', anyCondition, criteriaOf('or', anyCondition)))),
      'Invalid field: criteria.conditions.0.conditions.0.conditions.1 is nested deeper than 3 levels',
    ],
  ])('the criteria %j', (criteria, message) => expect(errorMessageOf(() => readCriteria(criteria))).toBe(message))

  test.each([
    ['[{', 'Invalid field: filter must be JSON: a list of conditions'],
    ['url', 'Invalid field: filter must be JSON: a list of conditions'],
    ['{}', 'Invalid field: filter must be a list of conditions'],
    [anyCondition, 'Invalid field: filter must be a list of conditions'],
    [5, 'Invalid field: filter must be a list of conditions'],
    [['url'], 'Invalid field: filter.0 must be an object {property, operator, value}'],
    [[null], 'Invalid field: filter.0 must be an object {property, operator, value}'],
    [[anyCondition, { operator: 'exists' }], 'Missing required field: filter.1.property'],
    [[{ property: '', operator: 'exists' }], 'Missing required field: filter.0.property'],
    [[{ property: 'url' }], 'Missing required field: filter.0.operator'],
    [[{ ...anyCondition, value_type: 'text' }], 'Invalid field: filter.0.value_type is not known'],
    [
      JSON.parse('[{"property":"url","operator":"exists","__proto__":1}]'),
      'Invalid field: filter.0.__proto__ is not known',
    ],
    [
      [criteriaOf('or', criteriaOf('and', criteriaOf('or', anyCondition)))],
      'Invalid field: filter.0.conditions.0.conditions.0 is nested deeper than 3 levels',
    ],
  ])('the filter %j', (filter, message) => expect(errorMessageOf(() => readFilter(filter))).toBe(message))

  test.each([
    'site_id',
    'timestamp',
    'URL',
    'user',
    'user.',
    'user.age',
    'properties',
    'properties.',
    'toString',
    '__proto__',
  ])('the property %s', (property) => {
    expect(errorMessageOf(() => readFilter([{ property, operator: 'exists' }]))).toBe(
      'Invalid field: filter.0.property must be one of: event_type, url, referrer, country, device_type, session_id, user_id, anonymous_id, path, referrer_host, properties.<name>, user.email, user.name, user.company, user.plan',
    )
  })

  test.each(['is', 'EQUALS', 'toString', 5, ['equals']])('the operator %j', (operator) => {
    expect(errorMessageOf(() => readFilter([{ property: 'url', operator, value: 'x' }]))).toBe(
      `Invalid field: filter.0.operator must be one of: ${operators.join(', ')}`,
    )
  })

  const { valueLengthMax, valuesMax, patternLengthMax, patternStepsMax } = conditionLimits
  const tooHeavy = `Invalid field: filter.0.value is too heavy a regular expression: its repetitions and ranges, written out, make more than ${patternStepsMax} steps`
  test.each([
    ...operators
      .filter((operator) => !operator.endsWith('exists'))
      .flatMap((operator) =>
        [undefined, null, ''].map((absent) => [operator, absent, 'Missing required field: filter.0.value'] as const),
      ),
    ['exists', 'x', 'Invalid field: filter.0.value must be left out: exists takes none'],
    ['not_exists', false, 'Invalid field: filter.0.value must be left out: not_exists takes none'],
    ['equals', ['x'], 'Invalid field: filter.0.value must be a text or a number: lists are for in and not_in'],
    ['contains', { a: 1 }, 'Invalid field: filter.0.value must be a text or a number'],
    [
      'equals',
      2 ** 53,
      'Invalid field: filter.0.value must be a text: a number cannot hold all digits of an integer beyond 2^53',
    ],
    [
      'in',
      ['x', -1e21],
      'Invalid field: filter.0.value.1 must be a text: a number cannot hold all digits of an integer beyond 2^53',
    ],
    ['equals', 'x\0', 'Invalid field: filter.0.value must not contain NUL characters'],
    [
      'equals',
      'x'.repeat(valueLengthMax + 1),
      `Invalid field: filter.0.value exceeds maximum length of ${valueLengthMax}`,
    ],
    ['in', 'x', 'Invalid field: filter.0.value must be a list of texts, as in takes one'],
    ['not_in', [], 'Invalid field: filter.0.value must hold at least one value'],
    ['in', ['x', ''], 'Invalid field: filter.0.value.1 must not be empty'],
    ['in', ['x', null], 'Invalid field: filter.0.value.1 must not be empty'],
    ['in', ['x', ['y']], 'Invalid field: filter.0.value.1 must be a text or a number'],
    ['in', ['x', 'y\0'], 'Invalid field: filter.0.value.1 must not contain NUL characters'],
    [
      'in',
      ['x', 'y'.repeat(valueLengthMax + 1)],
      `Invalid field: filter.0.value.1 exceeds maximum length of ${valueLengthMax}`,
    ],
    ['in', new Array(valuesMax + 1).fill('x'), `Invalid field: filter.0.value must contain at most ${valuesMax} items`],
    ...['x', '1x', ' 1', '0x10', '1e400', 'Infinity', 'NaN', '1,5', true].map(
      (value) =>
        [
          'greater_than',
          value,
          'Invalid field: filter.0.value must be a finite number, as greater_than compares',
        ] as const,
    ),
    ['matches', '(a', 'Invalid field: filter.0.value is not a regular expression that RE2 supports: missing closing )'],
    [
      'matches',
      'x(?=a)',
      'Invalid field: filter.0.value is not a regular expression that RE2 supports: invalid or unsupported Perl syntax (?=',
    ],
    [
      'matches',
      '\\1',
      'Invalid field: filter.0.value is not a regular expression that RE2 supports: invalid escape sequence',
    ],
    ['matches', ')', 'Invalid field: filter.0.value is not a regular expression that RE2 supports: unexpected )'],
    ['matches', 'a{1001}', tooHeavy],
    ['matches', '(.{0,30}){30}', tooHeavy],
    [
      'matches',
      'x'.repeat(patternLengthMax + 1),
      `Invalid field: filter.0.value exceeds maximum length of ${patternLengthMax}`,
    ],
  ])('the operator %s with the value %j', (operator, value, message) =>
    expect(errorMessageOf(() => readFilter([conditionOn(operator, value)]))).toBe(message),
  )

  test('property names with NUL, or longer than those of events', () => {
    const named = (name: string) => [{ property: `properties.${name}`, operator: 'exists' }]
    expect(errorMessageOf(() => readFilter(named('a\0')))).toBe(
      'Invalid field: filter.0.property must not contain NUL characters',
    )
    expect(errorMessageOf(() => readFilter(named('x'.repeat(propertyLimits.keyLengthMax + 1))))).toBe(
      'Invalid field: filter.0.property exceeds maximum length of 139',
    )
  })

  test('too many conditions, counted over all levels', () => {
    const ten = Array.from({ length: 10 }, () => anyCondition)
    const message = 'must contain at most 20 conditions'
    expect(errorMessageOf(() => readFilter([...ten, ...ten, anyCondition]))).toBe(`Invalid field: filter ${message}`)
    expect(errorMessageOf(() => readFilter([criteriaOf('or', ...ten), criteriaOf('or', ...ten, anyCondition)]))).toBe(
      `Invalid field: filter ${message}`,
    )
    expect(
      errorMessageOf(() =>
        readCriteria(criteriaOf('or', criteriaOf('and', ...ten), criteriaOf('and', ...ten), anyCondition)),
      ),
    ).toBe(`Invalid field: criteria ${message}`)
  })

  test('too many bytes of values and properties in UTF-8', () => {
    const { textBytesMax } = conditionLimits
    const property = 'url'
    const texts = Array.from({ length: Math.ceil(textBytesMax / 3_000) }, () => '日'.repeat(1_000))
    expect(errorMessageOf(() => readFilter([{ property, operator: 'in', value: texts }]))).toBe(
      `Invalid field: filter must not hold more than ${textBytesMax} bytes of values and properties`,
    )
    expect(readFilter([{ property, operator: 'in', value: texts.slice(1) }])).toHaveLength(1)
  })
})

describe('docs/limits.md describes the error one beyond the limit', () => {
  const nested = (depth: number): unknown => (depth === 1 ? anyCondition : criteriaOf('and', nested(depth - 1)))
  const filters: Record<keyof typeof conditionLimits, (size: number) => unknown[]> = {
    conditionsMax: (size) => Array.from({ length: size }, () => anyCondition),
    criteriaDepthMax: (size) => [nested(size)],
    valueLengthMax: (size) => [conditionOn('equals', 'x'.repeat(size))],
    valuesMax: (size) => [conditionOn('in', new Array(size).fill('x'))],
    // Each property name takes 12 bytes.
    textBytesMax: (size) =>
      ['in', 'not_in'].map((operator) => ({
        property: 'properties.p',
        operator,
        value: [...new Array<string>(12).fill('x'.repeat(2_000)), 'x'.repeat(operator === 'in' ? 988 : size - 49_012)],
      })),
    patternLengthMax: (size) => [conditionOn('matches', 'x'.repeat(size))],
    patternStepsMax: (size) => [conditionOn('matches', `x{${size - 2}}`)],
    // Eight patterns of 590 steps in nested criteria, and one with the other steps.
    patternStepsTotalMax: (size) => [
      criteriaOf('or', ...new Array<unknown>(8).fill(conditionOn('matches', 'x{588}'))),
      conditionOn('matches', `x{${size - 4_722}}`),
    ],
  }

  test.each(Object.entries(conditionLimits) as [keyof typeof conditionLimits, number][])('%s', (name, limit) => {
    const beyond = conditionLimitDescriptions[name].beyond as { error: string }
    expect(readFilter(filters[name](limit))).toBeDefined()
    const message = errorMessageOf(() => readFilter(filters[name](limit + 1)))
    expect(message.replace(/filter\.0(\.conditions\.0)*/, '<condition>')).toBe(beyond.error)
  })
})

describe('the pattern', () => {
  const tooHeavy = { problem: expect.stringContaining('too heavy') as unknown }

  test.each([
    '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
    '(?i)^/product/(\\d+)(\\.html?)?$',
    'x'.repeat(512),
    'a{500}',
    '(?i)[^\\x00-\\x7f]+',
    '(?i)[\\x{80}-\\x{10ffff}]+[a-z\u00c0-\u024f]*[一-龥]',
    '(?i)[a-z0-9🎉]',
    '(?i)^[a-zA-Z0-9가-힣_-]+$',
    '(?i)^/[a-z0-9一-龥-]+/[a-z0-9一-龥-]+',
    '(?i)^(\\p{L}+-)*\\p{Lu}[\\p{L}\\p{N}]*$',
    '\\pL'.repeat(100),
    '(?i)^\\p{L}{1,100}$',
  ])('%s is accepted', (pattern) => expect(checkPattern(pattern)).toHaveProperty('steps'))

  // Compiling one of these takes 50 to 200 ms, and one request may have 400: 20 conditions in each of 20 queries.
  test.each([
    '\\pL{1000}'.repeat(51),
    '(?:a?){1000}'.repeat(40),
    '(.{0,31}){0,31}'.repeat(34),
    '(((a{10}){10}){10})'.repeat(25),
    '\\Q[\\E'.concat('(a{1000})'.repeat(50)),
    // When case is ignored, each code point of a range is looked up.
    `(?i)[${'B-\u{1E943}'.repeat(168)}]`,
    `(?i)[${'B-\\x{10ffff}'.repeat(40)}]`,
    `((?si:[${'C-\u{1E943}'.repeat(100)}]))`,
    // A hyphen at the beginning of a class is the first character of a range.
    `(?i)[${'--\u{1E942}'.repeat(168)}]`,
    `(?i)[\\d${'--\u{1E942}'.repeat(160)}]`,
    `(?i)${'\\pL'.repeat(100)}`,
    `(?i)[${'\\p{Lu}'.repeat(80)}]`,
  ])('%s is rejected before it is compiled', (pattern) => {
    const elapsedMs = startCpuStopwatch()
    for (let i = 0; i < 400; i += 1) expect(checkPattern(pattern)).toMatchObject(tooHeavy)
    expect(elapsedMs()).toBeLessThan(10_000)
  })

  test('has as many steps as compiling it takes, if the compiled pattern has fewer', () => {
    expect(checkPattern('[\\pL\\PL]'.repeat(60))).toStrictEqual({ steps: 540 })
    expect(checkPattern('x{100}')).toStrictEqual({ steps: 102 })
  })

  test('is not rejected for repetitions in quoted text, classes and escapes, which are literal', () => {
    for (const literal of ['\\Qa{1000}\\E', '[{1000}]', '\\{1000}']) {
      expect(checkPattern(literal)).toHaveProperty('steps')
    }
    expect(checkPattern('(?P<name>\\pL{0,10}){12}')).toMatchObject(tooHeavy)
  })
})

test('the JSON Schemas of conditions describe their structure by components', () => {
  const components: Record<string, JsonSchema> = {}
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  expect(toJsonSchema(body, 'input', components)).toMatchObject({
    properties: { criteria: ref('Criteria') },
    required: ['criteria'],
  })
  expect(toJsonSchema(parameters, 'input', components)).toMatchObject({
    properties: {
      filter: { type: ['array', 'null'], items: { oneOf: [ref('Condition'), ref('NestedCriteria')] } },
    },
  })
  const criteria = { type: 'object', properties: { type: { enum: ['and', 'or'] }, conditions: { minItems: 1 } } }
  const holding = (items: object) => ({ properties: { conditions: { items } } })
  expect(components).toMatchObject({
    Condition: {
      type: 'object',
      required: ['property', 'operator'],
      properties: { operator: { enum: operators } },
    },
    Criteria: { ...criteria, properties: { ...criteria.properties, scope: { enum: ['event', 'user'] } } },
    NestedCriteria: criteria,
    InnermostCriteria: criteria,
  })
  expect(components.Criteria).toMatchObject(holding({ oneOf: [ref('Condition'), ref('NestedCriteria')] }))
  expect(components.NestedCriteria).toMatchObject(holding({ oneOf: [ref('Condition'), ref('InnermostCriteria')] }))
  expect(components.InnermostCriteria).toMatchObject(holding(ref('Condition')))
})
