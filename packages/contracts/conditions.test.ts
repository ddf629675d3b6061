import { describe, expect, test } from '@jest/globals'
import joi from 'joi'
import { conditionLimitDescriptions } from '../../docs/limits.ts'
import { conditionLimits, criteriaSchema, eventFields, filterSchema, operators, userFields } from './conditions.ts'
import { SluiceError } from './errors.ts'
import { toJsonSchema } from './openapi-schema.ts'
import { patternProblem } from './pattern.ts'
import { propertyLimits } from './properties.ts'
import { validate } from './validate.ts'

const body = joi.object({ criteria: criteriaSchema.required() })
const parameters = joi.object({ filter: filterSchema })

const accepted = (value: unknown): unknown => (validate(parameters, { filter: value }) as { filter?: unknown }).filter
const acceptedCriteria = (value: unknown): unknown =>
  (validate(body, { criteria: value }) as { criteria?: unknown }).criteria

/** The message of the 400. */
function refusal(call: () => unknown): string {
  try {
    call()
  } catch (error) {
    if (error instanceof SluiceError && error.status === 400) return error.message
    throw error
  }
  throw new Error('was accepted')
}

const isPage = { property: 'url', operator: 'exists' }
const asks = (operator: string, value?: unknown) => ({ property: 'properties.p', operator, value })
const of = (type: string, ...conditions: unknown[]) => ({ type, conditions })

describe('accepted', () => {
  test('every property, as sent', () => {
    const properties = [
      ...eventFields,
      ...userFields,
      ...userFields.map((field) => `user.${field}`),
      ...['plan', 'user.email', 'a.b', '__proto__', ' ', '😀', 'x'.repeat(propertyLimits.keyLengthMax)].map(
        (name) => `properties.${name}`,
      ),
    ]
    for (const property of properties) {
      expect(accepted([{ property, operator: 'exists' }])).toStrictEqual([{ property, operator: 'exists' }])
    }
  })

  test.each([
    ['equals', 'x', 'x'],
    ['equals', 5, '5'],
    ['not_equals', -0.5, '-0.5'],
    ['contains', 1e21, '1e+21'],
    ['equals', true, 'true'],
    ['starts_with', ' ', ' '],
    ['ends_with', 'a\uD83D', 'a\uFFFD'],
    ['in', ['a', 5, false], ['a', '5', 'false']],
    ['not_in', ['a'], ['a']],
    ['greater_than', 5, '5'],
    ['less_than', '-1.5e3', '-1.5e3'],
    ['greater_than_or_equal', '+.5', '+.5'],
    ['matches', '^a{2}$', '^a{2}$'],
    ['matches', 5, '5'],
    ['equals', 'x'.repeat(conditionLimits.valueLengthMax), 'x'.repeat(conditionLimits.valueLengthMax)],
    ['equals', '😀'.repeat(conditionLimits.valueLengthMax), '😀'.repeat(conditionLimits.valueLengthMax)],
  ])('%s %j: the value is text', (operator, value, expected) => {
    expect(accepted([asks(operator, value)])).toStrictEqual([asks(operator, expected)])
  })

  test.each([undefined, null, ''])('exists with the value %j, which is none', (value) => {
    expect(accepted([{ ...isPage, value }])).toStrictEqual([isPage])
  })

  test('criteria in criteria, three levels of them', () => {
    const criteria = of('and', isPage, of('or', isPage, of('and', isPage, isPage)))
    expect(acceptedCriteria(criteria)).toStrictEqual(criteria)
    expect(acceptedCriteria({ ...criteria, scope: 'user' })).toStrictEqual({ ...criteria, scope: 'user' })
    // The filter's list is the first level.
    const filter = [isPage, of('or', isPage, of('and', isPage))]
    expect(accepted(filter)).toStrictEqual(filter)
    expect(accepted(JSON.stringify(filter))).toStrictEqual(filter)
  })

  test('no filter, by whatever name', () => {
    expect(accepted('[]')).toStrictEqual([])
    for (const none of [undefined, null, '']) expect(accepted(none)).toBeUndefined()
  })

  test('as many conditions as there may be', () => {
    const { conditionsMax } = conditionLimits
    const all = Array.from({ length: conditionsMax }, () => isPage)
    expect(accepted(all)).toHaveLength(conditionsMax)
    expect(accepted([of('or', ...all)])).toHaveLength(1)
  })
})

describe('refused, by path and with what to do', () => {
  test.each([
    [undefined, 'Missing required field: criteria'],
    ['', 'Missing required field: criteria'],
    ['x', 'Invalid field: criteria must be an object {type, conditions}'],
    [[isPage], 'Invalid field: criteria must be an object {type, conditions}'],
    [{ conditions: [isPage] }, 'Missing required field: criteria.type'],
    [of('not', isPage), 'Invalid field: criteria.type must be one of: and, or'],
    [{ type: 'and' }, 'Missing required field: criteria.conditions'],
    [{ type: 'and', conditions: isPage }, 'Invalid field: criteria.conditions must be a list of conditions'],
    [of('and'), 'Invalid field: criteria.conditions must hold at least one condition'],
    [{ ...of('and', isPage), scope: 'all' }, 'Invalid field: criteria.scope must be one of: event, user'],
    [{ ...of('and', isPage), negate: true }, 'Invalid field: criteria.negate is not known'],
    [
      of('and', { ...of('or', isPage), scope: 'user' }),
      'Invalid field: criteria.conditions.0.scope is for the outermost criteria',
    ],
    [of('and', of('or')), 'Invalid field: criteria.conditions.0.conditions must hold at least one condition'],
    [
      of('and', isPage, of('or', isPage, { operator: 'exists' })),
      'Missing required field: criteria.conditions.1.conditions.1.property',
    ],
    [
      of('and', of('or', of('and', isPage, of('or', isPage)))),
      'Invalid field: criteria.conditions.0.conditions.0.conditions.1 is nested deeper than 3 levels',
    ],
  ])('criteria %j', (criteria, message) => {
    expect(refusal(() => acceptedCriteria(criteria))).toBe(message)
  })

  test.each([
    ['[{', 'Invalid field: filter must be JSON: a list of conditions'],
    ['url', 'Invalid field: filter must be JSON: a list of conditions'],
    ['{}', 'Invalid field: filter must be a list of conditions'],
    [isPage, 'Invalid field: filter must be a list of conditions'],
    [5, 'Invalid field: filter must be a list of conditions'],
    [['url'], 'Invalid field: filter.0 must be an object {property, operator, value}'],
    [[null], 'Invalid field: filter.0 must be an object {property, operator, value}'],
    [[isPage, { operator: 'exists' }], 'Missing required field: filter.1.property'],
    [[{ property: '', operator: 'exists' }], 'Missing required field: filter.0.property'],
    [[{ property: 'url' }], 'Missing required field: filter.0.operator'],
    [[{ ...isPage, value_type: 'text' }], 'Invalid field: filter.0.value_type is not known'],
    [
      JSON.parse('[{"property":"url","operator":"exists","__proto__":1}]'),
      'Invalid field: filter.0.__proto__ is not known',
    ],
    [
      [of('or', of('and', of('or', isPage)))],
      'Invalid field: filter.0.conditions.0.conditions.0 is nested deeper than 3 levels',
    ],
  ])('filter %j', (filter, message) => {
    expect(refusal(() => accepted(filter))).toBe(message)
  })

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
  ])('property %s', (property) => {
    expect(refusal(() => accepted([{ property, operator: 'exists' }]))).toBe(
      'Invalid field: filter.0.property must be one of: event_type, url, referrer, country, device_type, session_id, user_id, anonymous_id, path, referrer_host, properties.<name>, user.email, user.name, user.company, user.plan',
    )
  })

  test.each(['is', 'EQUALS', 'toString', 5, ['equals']])('operator %j', (operator) => {
    expect(refusal(() => accepted([{ property: 'url', operator, value: 'x' }]))).toBe(
      `Invalid field: filter.0.operator must be one of: ${operators.join(', ')}`,
    )
  })

  const { valueLengthMax, valuesMax, patternLengthMax, patternSizeMax } = conditionLimits
  const tooHeavy = `Invalid field: filter.0.value is too heavy a regular expression: written out, its repetitions make more than ${patternSizeMax} steps`
  test.each([
    ...operators
      .filter((operator) => !operator.endsWith('exists'))
      .flatMap((operator) =>
        [undefined, null, ''].map((none) => [operator, none, 'Missing required field: filter.0.value'] as const),
      ),
    ['exists', 'x', 'Invalid field: filter.0.value must be left out: exists takes none'],
    ['not_exists', false, 'Invalid field: filter.0.value must be left out: not_exists takes none'],
    ['equals', ['x'], 'Invalid field: filter.0.value must be a text or a number: lists are for in and not_in'],
    ['contains', { a: 1 }, 'Invalid field: filter.0.value must be a text or a number'],
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
    ['matches', '(a', 'Invalid field: filter.0.value is no regular expression that RE2 takes: missing closing )'],
    [
      'matches',
      'x(?=a)',
      'Invalid field: filter.0.value is no regular expression that RE2 takes: invalid or unsupported Perl syntax (?=',
    ],
    [
      'matches',
      '\\1',
      'Invalid field: filter.0.value is no regular expression that RE2 takes: invalid escape sequence',
    ],
    ['matches', ')', 'Invalid field: filter.0.value is no regular expression that RE2 takes: unexpected )'],
    ['matches', 'a{1001}', tooHeavy],
    ['matches', '(.{0,30}){30}', tooHeavy],
    [
      'matches',
      'x'.repeat(patternLengthMax + 1),
      `Invalid field: filter.0.value exceeds maximum length of ${patternLengthMax}`,
    ],
  ])('%s %j', (operator, value, message) => {
    expect(refusal(() => accepted([asks(operator, value)]))).toBe(message)
  })

  test('properties with NUL or a longer name than an event can have', () => {
    const named = (name: string) => [{ property: `properties.${name}`, operator: 'exists' }]
    expect(refusal(() => accepted(named('a\0')))).toBe(
      'Invalid field: filter.0.property must not contain NUL characters',
    )
    expect(refusal(() => accepted(named('x'.repeat(propertyLimits.keyLengthMax + 1))))).toBe(
      'Invalid field: filter.0.property exceeds maximum length of 139',
    )
  })

  test('more conditions than there may be, wherever they are', () => {
    const ten = Array.from({ length: 10 }, () => isPage)
    const message = 'must hold at most 20 conditions'
    expect(refusal(() => accepted([...ten, ...ten, isPage]))).toBe(`Invalid field: filter ${message}`)
    expect(refusal(() => accepted([of('or', ...ten), of('or', ...ten, isPage)]))).toBe(
      `Invalid field: filter ${message}`,
    )
    expect(refusal(() => acceptedCriteria(of('or', of('and', ...ten), of('and', ...ten), isPage)))).toBe(
      `Invalid field: criteria ${message}`,
    )
  })

  test('more text than ClickHouse takes, counted as UTF-8', () => {
    const { textBytesMax } = conditionLimits
    const property = 'url'
    const texts = Array.from({ length: Math.ceil(textBytesMax / 3_000) }, () => '日'.repeat(1_000))
    expect(refusal(() => accepted([{ property, operator: 'in', value: texts }]))).toBe(
      `Invalid field: filter must not hold more than ${textBytesMax} bytes of values and properties`,
    )
    expect(accepted([{ property, operator: 'in', value: texts.slice(1) }])).toHaveLength(1)
  })
})

describe('docs/limits.md says what is one too many', () => {
  const nested = (depth: number): unknown => (depth === 1 ? isPage : of('and', nested(depth - 1)))
  const filters: Record<keyof typeof conditionLimits, (size: number) => unknown[]> = {
    conditionsMax: (size) => Array.from({ length: size }, () => isPage),
    criteriaDepthMax: (size) => [nested(size)],
    valueLengthMax: (size) => [asks('equals', 'x'.repeat(size))],
    valuesMax: (size) => [asks('in', new Array(size).fill('x'))],
    // The properties are 12 bytes each.
    textBytesMax: (size) =>
      ['in', 'not_in'].map((operator) => ({
        property: 'properties.p',
        operator,
        value: [...new Array<string>(12).fill('x'.repeat(2_000)), 'x'.repeat(operator === 'in' ? 988 : size - 49_012)],
      })),
    patternLengthMax: (size) => [asks('matches', 'x'.repeat(size))],
    patternSizeMax: (size) => [asks('matches', `x{${size - 2}}`)],
  }

  test.each(Object.entries(conditionLimits) as [keyof typeof conditionLimits, number][])('%s', (name, limit) => {
    const beyond = conditionLimitDescriptions[name].beyond as { error: string }
    expect(accepted(filters[name](limit))).toBeDefined()
    const message = refusal(() => accepted(filters[name](limit + 1)))
    expect(message.replace(/filter\.0(\.conditions\.0)*/, '<condition>')).toBe(beyond.error)
  })
})

describe('patterns', () => {
  test.each([
    '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
    '(?i)^/product/(\\d+)(\\.html?)?$',
    'x'.repeat(512),
    'a{500}',
  ])('%s is light enough', (pattern) => {
    expect(patternProblem(pattern)).toBeUndefined()
  })

  // Compiled, each would take 50 to 200 ms, and one request may hold 400: 20 conditions in 20 queries of a batch.
  test.each([
    '\\pL{1000}'.repeat(51),
    '(?:a?){1000}'.repeat(40),
    '(.{0,31}){0,31}'.repeat(34),
    '(((a{10}){10}){10})'.repeat(25),
    '\\Q[\\E'.concat('(a{1000})'.repeat(50)),
  ])('%s is refused before it is compiled', (pattern) => {
    const begun = performance.now()
    for (let i = 0; i < 400; i += 1) expect(patternProblem(pattern)).toContain('too heavy')
    expect(performance.now() - begun).toBeLessThan(10_000)
  })

  test('it is the steps that count, not what a quote or a class seems to repeat', () => {
    expect(patternProblem('\\Qa{1000}\\E')).toBeUndefined()
    expect(patternProblem('[{1000}]')).toBeUndefined()
    expect(patternProblem('\\{1000}')).toBeUndefined()
    expect(patternProblem('(?P<name>\\pL{0,10}){12}')).toContain('too heavy')
  })
})

test('the schemas tell OpenAPI their form', () => {
  const condition = {
    type: 'object',
    required: ['property', 'operator'],
    properties: { operator: { enum: operators } },
  }
  const criteria = { type: 'object', properties: { type: { enum: ['and', 'or'] }, conditions: { minItems: 1 } } }
  expect(toJsonSchema(body, 'input', {})).toMatchObject({
    properties: {
      criteria: { ...criteria, properties: { ...criteria.properties, scope: { enum: ['event', 'user'] } } },
    },
    required: ['criteria'],
  })
  expect(toJsonSchema(parameters, 'input', {})).toMatchObject({
    properties: {
      filter: {
        type: ['array', 'null'],
        items: {
          anyOf: [
            condition,
            {
              properties: {
                conditions: { items: { anyOf: [condition, { properties: { conditions: { items: condition } } }] } },
              },
            },
          ],
        },
      },
    },
  })
})
