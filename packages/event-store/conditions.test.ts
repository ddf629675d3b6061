import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { RE2JS } from 're2js'
import { checkPattern } from '@sluice/api/pattern'
import { conditionLimits, type Operator, operators } from '@sluice/contracts/conditions'
import { type ConditionDatabase, filterOf, openConditionDatabase } from '../../tests/support/condition-database.ts'
import {
  type ConditionEvent,
  matchesCondition,
  type RawCondition,
} from '../../tests/support/oracle/matches-condition.ts'
import { ClickHouseError } from './clickhouse/errors.ts'
import { conditionSql, refusedPatternPath } from './conditions.ts'

let database: ConditionDatabase

beforeAll(async () => {
  database = await openConditionDatabase()
})

afterAll(async () => {
  await database.drop()
})

const special = `100%_'"\\n.*[a]\n😀{p:String}`

/** Events by the value of their property `p`. */
const byValue = {
  apple: { properties: { p: 'apple' } },
  Apple: { properties: { p: 'Apple' } },
  pineapple: { properties: { p: 'pineapple pie' } },
  special: { properties: { p: special } },
  'number 5': { properties: { p: 5 } },
  'text 5': { properties: { p: '5' } },
  'text 5.0': { properties: { p: '5.0' } },
  'number 10': { properties: { p: 10 } },
  'number -0.5': { properties: { p: -0.5 } },
  'text Infinity': { properties: { p: 'Infinity' } },
  true: { properties: { p: true } },
  list: { properties: { p: [5, 'apple'] } },
  empty: { properties: { p: '' } },
  null: { properties: { p: null } },
  absent: { properties: { other: 'apple' } },
  'no properties': {},
} satisfies Record<string, ConditionEvent>

type Name = keyof typeof byValue
const names = Object.keys(byValue) as Name[]
const withoutValue: readonly Name[] = ['empty', 'null', 'absent', 'no properties']
const allBut = (...excluded: Name[]): Name[] => names.filter((name) => !excluded.includes(name))

/** The events that meet each condition, as docs/http-interface.md#conditions defines it. */
const table: [operator: Operator, value: string | number | boolean | (string | number)[] | undefined, met: Name[]][] = [
  ['equals', 'apple', ['apple']],
  ['equals', 5, ['number 5', 'text 5']],
  ['equals', '5', ['number 5', 'text 5']],
  ['equals', true, ['true']],
  ['equals', '[5,"apple"]', ['list']],
  ['equals', special, ['special']],
  ['not_equals', 'apple', allBut('apple')],
  ['not_equals', 5, allBut('number 5', 'text 5')],
  ['not_equals', special, allBut('special')],
  ['contains', 'apple', ['apple', 'pineapple', 'list']],
  ['contains', 5, ['number 5', 'text 5', 'text 5.0', 'number -0.5', 'list']],
  ['contains', '%', ['special']],
  ['contains', '_', ['special']],
  ['contains', '\\n', ['special']],
  ['contains', special.slice(1, -1), ['special']],
  ['not_contains', 'apple', allBut('apple', 'pineapple', 'list')],
  ['not_contains', '%', allBut('special')],
  ['starts_with', 'apple', ['apple']],
  ['starts_with', '100%', ['special']],
  ['starts_with', '1', ['special', 'number 10']],
  ['starts_with', '_', []],
  ['ends_with', 'apple', ['apple']],
  ['ends_with', ' pie', ['pineapple']],
  ['ends_with', '😀{p:String}', ['special']],
  ['in', ['apple', 5], ['apple', 'number 5', 'text 5']],
  ['in', [special, "'"], ['special']],
  ['not_in', ['apple', 5], allBut('apple', 'number 5', 'text 5')],
  ['not_in', [special], allBut('special')],
  ['greater_than', 5, ['number 10']],
  ['greater_than', '-1', ['number 5', 'text 5', 'text 5.0', 'number 10', 'number -0.5']],
  ['greater_than_or_equal', '5', ['number 5', 'text 5', 'text 5.0', 'number 10']],
  ['greater_than_or_equal', '5.00', ['number 5', 'text 5', 'text 5.0', 'number 10']],
  ['less_than', 5, ['number -0.5']],
  ['less_than', '1e1', ['number 5', 'text 5', 'text 5.0', 'number -0.5']],
  ['less_than_or_equal', 5, ['number 5', 'text 5', 'text 5.0', 'number -0.5']],
  ['matches', 'apple', ['apple', 'pineapple', 'list']],
  ['matches', '^[Aa]pple$', ['apple', 'Apple']],
  ['matches', '^[0-9.]+$', ['number 5', 'text 5', 'text 5.0', 'number 10']],
  ['matches', 'a\n😀', []],
  ['matches', '\\].😀\\{', ['special']],
  ['matches', '^$', []],
  ['matches', '.*', allBut(...withoutValue)],
  ['exists', undefined, allBut(...withoutValue)],
  ['not_exists', undefined, [...withoutValue]],
]

describe('each operator on present, special, empty and absent values and on values of other types', () => {
  test('is part of the table', () =>
    expect([...new Set(table.map(([operator]) => operator))]).toStrictEqual([...operators]))

  test('has the results of the table in ClickHouse and in the oracle', async () => {
    const conditions = table.map(([operator, value]) => ({
      property: 'properties.p',
      operator,
      ...(value === undefined ? {} : { value }),
    }))
    const answers = await database.evaluate(Object.values(byValue), conditions)
    const metBy = (isMet: (row: number, column: number) => boolean | undefined) =>
      table.map(([operator, value], column) => [operator, value, names.filter((_, row) => isMet(row, column))])

    expect(metBy((row, column) => answers[row]?.[column])).toStrictEqual(table)
    const oracle = (row: number, column: number): boolean =>
      matchesCondition(Object.values(byValue)[row] ?? {}, conditions[column] as RawCondition)
    expect(metBy(oracle)).toStrictEqual(table)
  })
})

describe('numbers are read precisely, also where the profile chooses a faster algorithm', () => {
  let hastyDatabase: ConditionDatabase
  beforeAll(async () => {
    hastyDatabase = await openConditionDatabase({ precise_float_parsing: 0 })
  })
  afterAll(() => hastyDatabase.drop())

  test.each(['1.5008753E7', '15008753', '+15008753.', '0.15008753e8', '5e-324', '0.30000000000000004', '1e+21'])(
    '%s equals itself as stored text and as a limit',
    async (text) => {
      const limits = [...new Set([text, String(Number(text))])]
      const conditions = limits.flatMap((value) =>
        ['greater_than_or_equal', 'less_than_or_equal', 'greater_than', 'less_than'].map((operator) => ({
          property: 'properties.p',
          operator,
          value,
        })),
      )
      const answers = await hastyDatabase.evaluate([{ properties: { p: text } }], conditions)
      expect(answers).toStrictEqual([limits.flatMap(() => [true, true, false, false])])
    },
  )
})

/** Returns those of the conditions that the event meets. */
async function metConditions(event: ConditionEvent, conditions: readonly RawCondition[]): Promise<RawCondition[]> {
  const [answers = []] = await database.evaluate([event], conditions)
  return conditions.filter((_, index) => answers[index])
}

test('characters with a meaning in SQL, LIKE, parameters or patterns have no meaning in values', async () => {
  const unusualTexts = [
    "'",
    '"',
    '`',
    '\\',
    '\\\\',
    '\\N',
    '\\0',
    '%',
    '_',
    '\n',
    '\r',
    '\t',
    '\u0001',
    '😀',
    'ü',
    '{a:String}',
    '?',
  ]
  const events = unusualTexts.map((text) => ({ properties: { p: `x${text}y` } }))
  const conditionsFor = (operator: string, value: (text: string) => string | string[]) =>
    unusualTexts.map((text) => ({ property: 'properties.p', operator, value: value(text) }))
  const conditions = [
    ...conditionsFor('equals', (text) => `x${text}y`),
    ...conditionsFor('contains', (text) => text),
    ...conditionsFor('starts_with', (text) => `x${text}`),
    ...conditionsFor('ends_with', (text) => `${text}y`),
    ...conditionsFor('in', (text) => ['z', `x${text}y`]),
    ...conditionsFor('matches', (text) => `^x${text.replaceAll(/[\\{}?]/g, '\\$&')}y$`),
  ]
  const answers = await database.evaluate(events, conditions)
  expect(answers).toStrictEqual(
    events.map((event) => conditions.map((condition) => matchesCondition(event, condition))),
  )
  // Each event meets at least the six conditions with its own text.
  for (const [row, answer] of answers.entries()) {
    expect(answer.filter((isMet, column) => column % unusualTexts.length === row && isMet)).toHaveLength(6)
  }
})

test('a property is found by its name, whatever characters the name has', async () => {
  const unusualTexts = [
    'a.b',
    '__proto__',
    'constructor',
    "'",
    '"',
    '\\',
    '\\n',
    '\n',
    '%',
    '{c0_0:String}',
    '😀',
    'x'.repeat(128),
  ]
  const events = unusualTexts.map((name) => ({ properties: Object.fromEntries([[name, 'here']]) }))
  const conditions = unusualTexts.map((name) => ({ property: `properties.${name}`, operator: 'exists' }))
  const answers = await database.evaluate(events, conditions)
  expect(answers).toStrictEqual(unusualTexts.map((name) => unusualTexts.map((other) => name === other)))
})

test('countries, devices and hosts are compared without regard to case, all other values with regard to it', async () => {
  const event = { country: 'de', device_type: 'Mobile', referrer: 'https://Search.example:8080/?q=x', user_id: 'Ada' }
  const right = [
    { property: 'country', operator: 'equals', value: 'dE' },
    { property: 'country', operator: 'in', value: ['us', 'de'] },
    { property: 'country', operator: 'matches', value: '^DE$' },
    { property: 'device_type', operator: 'starts_with', value: 'MOB' },
    { property: 'referrer_host', operator: 'ends_with', value: '.EXAMPLE' },
    { property: 'user_id', operator: 'equals', value: 'Ada' },
  ]
  const wrong = [
    { property: 'country', operator: 'not_equals', value: 'de' },
    { property: 'country', operator: 'matches', value: '^de$' },
    { property: 'device_type', operator: 'not_contains', value: 'OBI' },
    { property: 'user_id', operator: 'equals', value: 'ada' },
  ]
  expect(await metConditions(event, [...right, ...wrong])).toStrictEqual(right)
  // Case folding beyond ASCII would turn `ß` into `SS`.
  expect(
    await metConditions({ country: 'SS' }, [{ property: 'country', operator: 'equals', value: 'ß' }]),
  ).toStrictEqual([])
})

test.each([
  ['https://shop.example/a/b?q=/x#y', 'shop.example', '/a/b'],
  ['HTTPS://Ada:pw@Shop.Example:8080/caf%C3%A9//', 'shop.example', '/caf%C3%A9//'],
  ['http://localhost', 'localhost', ''],
  ['http://localhost#/a?b', 'localhost', ''],
  ['https://shop.example?u=https://other.example/x', 'shop.example', ''],
  ['http://[2001:DB8::1]:80/x', '[2001:db8::1]', '/x'],
  ['android-app://com.example.app/', 'com.example.app', '/'],
  ['//Shop.Example:8080/a/b', 'shop.example', '/a/b'],
  ['/pricing?plan=pro', '', '/pricing'],
  ['mailto:ada@shop.example', '', ''],
  ['', '', ''],
])('%j has the host %j and the path %j', async (url, host, path) => {
  const is = (property: string, value: string): RawCondition =>
    value === '' ? { property, operator: 'not_exists' } : { property, operator: 'equals', value }
  const conditions = [is('referrer_host', host), is('path', path)]
  expect(await metConditions({ url, referrer: url }, conditions)).toStrictEqual(conditions)
  expect(conditions.map((condition) => matchesCondition({ url, referrer: url }, condition))).toStrictEqual([true, true])
})

describe('user fields', () => {
  const ada = { user_id: 'ada', user: { email: 'ada@example.com', plan: 'pro' } }
  const isPro = { property: 'plan', operator: 'equals', value: 'pro' }
  const hasName = { property: 'user.name', operator: 'exists' }
  const isNotFree = { property: 'user.plan', operator: 'not_equals', value: 'free' }

  test('are found by either name and are empty for an unknown user', async () => {
    const byEither = [isPro, { ...isPro, property: 'user.plan' }]
    expect(await metConditions(ada, [...byEither, hasName, isNotFree])).toStrictEqual([...byEither, isNotFree])
    expect(await metConditions({ user_id: 'bob' }, [isPro, hasName, isNotFree])).toStrictEqual([isNotFree])
    expect(await metConditions({}, [isPro, hasName, isNotFree])).toStrictEqual([isNotFree])
    expect(await metConditions({ properties: { plan: 'pro' } }, [isPro])).toStrictEqual([])
  })

  test('are listed once each for the join of the statement', () => {
    const fieldsOf = (...conditions: RawCondition[]) =>
      conditionSql(filterOf(...conditions), { prefix: 'c' }).userFields
    expect(fieldsOf(isPro, { type: 'or', conditions: [hasName, isNotFree] })).toStrictEqual(['plan', 'name'])
    expect(fieldsOf({ property: 'properties.plan', operator: 'exists' })).toStrictEqual([])
  })
})

test('`and` needs all conditions, `or` needs one, at every level, and an empty list is always met', async () => {
  const yes = { property: 'event_type', operator: 'exists' }
  const no = { property: 'event_type', operator: 'not_exists' }
  const all = (...conditions: RawCondition[]): RawCondition => ({ type: 'and', conditions })
  const one = (...conditions: RawCondition[]): RawCondition => ({ type: 'or', conditions })
  const right = [all(yes, yes), one(no, yes), one(all(yes, no), yes), all(one(no, yes), yes), one(all(yes))]
  const wrong = [all(yes, no), one(no, no), all(one(yes, no), no), one(all(yes, no), no)]
  expect(await metConditions({}, [...right, ...wrong])).toStrictEqual(right)

  const { sql, params } = conditionSql([], { prefix: 'c' })
  const { rows } = await database.clickHouse.query(`SELECT toUInt8(${sql}) AS met`, params)
  expect(rows).toStrictEqual([{ met: 1 }])
})

test('conditions with different prefixes can be used in one statement', () => {
  const filter = filterOf({ property: 'properties.p', operator: 'in', value: ['x', 'y'] })
  const [one, other] = [conditionSql(filter, { prefix: 'step1' }), conditionSql(filter, { prefix: 'step2' })]
  expect(one).toStrictEqual({
    sql: '(properties[{step1_0:String}] IN {step1_1:Array(String)})',
    params: { step1_0: 'p', step1_1: ['x', 'y'] },
    userFields: [],
  })
  expect(Object.keys(one.params)).not.toEqual(expect.arrayContaining(Object.keys(other.params)))
  expect(() => conditionSql(filter, { prefix: 'a}' })).toThrow(TypeError)
})

test('property names that the schema would refuse never become SQL', () => {
  const sqlOf = (property: string) => conditionSql([{ property, operator: 'equals', value: 'x' }], { prefix: 'c' })
  expect(() => sqlOf('site_id')).toThrow('no such property: site_id')
  expect(() => sqlOf("url = '' OR url")).toThrow(TypeError)
  expect(() => sqlOf('__proto__')).toThrow(TypeError)
})

test('the longest filter is accepted with any characters', async () => {
  const { conditionsMax, textBytesMax, valuesMax } = conditionLimits
  // In the URL, the first character takes nine bytes instead of three, the second one six instead of one.
  for (const character of ['日', "'"]) {
    const value = Array.from({ length: valuesMax }, (_, index) => {
      return String(index).padEnd(4) + character.repeat(44 / Buffer.byteLength(character))
    })
    const others = Array.from({ length: conditionsMax - 1 }, () => ({ property: 'url', operator: 'not_exists' }))
    const conditions = [{ property: 'url', operator: 'in', value }, ...others]
    const bytes = value.reduce((sum, each) => sum + Buffer.byteLength(each), 0)
    expect(bytes).toBeGreaterThan(textBytesMax * 0.9)
    expect(await metConditions({ url: value[7] ?? '' }, [{ type: 'or', conditions }])).toHaveLength(1)
  }
})

describe('patterns', () => {
  test.each([
    // Patterns for which ClickHouse searches a wrong required text.
    ['[]a]a', 'aa', true],
    ['[^]a]b+', 'xb', true],
    ['😀?', 'x', true],
    ['b*?😀{0}', 'xb', true],
    ['abc+?(?s)?[(]??', 'ab', true],
    ['\\x70ricing', '/pricing', true],
    ['Hello\\x20World', 'Hello World', true],
    ['\\101bc', 'Abc', true],
    ['\\pLog', 'blog', true],
    ['abc[[x]|b', 'b', true],
    ['abc[\\][]|b', 'b', true],
    ['abd\\Q\\E*c', 'abc', true],
    ['abc{d(ef)}ghi', 'abc{def}ghi', true],
    // Plain patterns, for which ClickHouse keeps its search.
    ['a.c', 'a\nc', true],
    ['(?-s)a.c', 'a\nc', false],
    ['(?i)äB', 'Äb', true],
    ['\\Qa.c\\E', 'abc', false],
    ['^\\pL+$', 'naïve', true],
    ['\\.html?$', '/index.htm', true],
    ['x|', 'y', true],
    ['a{,2}', 'a{,2}', true],
  ])('the pattern %j on %j results in %s', async (value, text, expected) => {
    const condition = { property: 'properties.p', operator: 'matches', value }
    expect(await metConditions({ properties: { p: text } }, [condition])).toHaveLength(Number(expected))
  })

  test('that the schema accepts have the results of RE2 in ClickHouse', async () => {
    const pieces = [
      ...[
        'a',
        'ab',
        'abc',
        '.',
        'ä',
        '😀',
        '\\d',
        '\\W',
        '\\b',
        '^',
        '$',
        '\\A',
        '\\z',
        '[^a]',
        '[]a]',
        '[[:alpha:]]',
        '[[a]',
        '\\pL',
        ')',
      ],
      ...[
        '\\p{Greek}',
        '\\PN',
        '\\x62',
        '\\141',
        '\\x{1F600}',
        '\\Q(\\E',
        '\\Q\\E',
        '\\.',
        '\\',
        '(?i)',
        '(?-s)',
        '(?U)',
        '\\C',
        '\\1',
        '\\Z',
        '{',
        '(',
      ],
      ...[
        '*',
        '+',
        '?',
        '*?',
        '{2}',
        '{1,3}?',
        '{500}',
        '{2,}',
        '|',
        '(a|b)',
        '(?:a',
        '(?P<n>a)',
        '(?<m>b)',
        '(?=a)',
        '[a',
        ']',
      ],
    ]
    const pattern = fc
      .array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 6 })
      .map((drawn) => drawn.join(''))
      .filter((drawn) => 'steps' in checkPattern(drawn))
    const heavy = [
      '.{0,290}',
      '\\pL{119}',
      '(?i:[^\\pL\\pN]{54})',
      '[^\\pN\\pL]'.repeat(46),
      'a'.repeat(512),
      '('.repeat(150) + ')'.repeat(150),
    ]
    const ofLetters = fc.string({
      unit: fc.constantFrom('a', 'b', 'c', 'a', 'b', '.', '(', 'ä', '1'),
      minLength: 1,
      maxLength: 8,
    })
    const texts = ['a', 'b', 'ab', 'aab', 'abab', 'abcabc', 'b😀', ...fc.sample(ofLetters, 40)]
    for (const pattern of heavy) expect(checkPattern(pattern)).toHaveProperty('steps')
    const patterns = [...heavy, ...fc.sample(pattern, 300)]
    const events = texts.map((p) => ({ properties: { p } }))
    const answers = await database.evaluate(
      events,
      patterns.map((value) => ({ property: 'properties.p', operator: 'matches', value })),
    )
    const compiled = patterns.map((each) => RE2JS.compile(each, RE2JS.DOTALL))
    const differences = texts.flatMap((text, row) =>
      patterns
        .map((value, column) => ({
          value,
          text,
          is: answers[row]?.[column],
          should: compiled[column]?.matcher(text).find(),
        }))
        .filter(({ is, should }) => is !== should),
    )
    expect(differences.slice(0, 3)).toStrictEqual([])
  })

  test('are reported with their path when ClickHouse refuses them', async () => {
    // The pattern names a script of Unicode 17, which ClickHouse's RE2 does not know yet.
    const refused = { property: 'url', operator: 'matches', value: '\\p{Sidetic}' }
    const filter = filterOf(
      { property: 'url', operator: 'matches', value: 'x' },
      { type: 'or', conditions: [{ property: 'url', operator: 'not_exists' }, refused] },
    )
    const { sql, params } = conditionSql(filter, { prefix: 'c' })
    const error: unknown = await database.clickHouse
      .query(`SELECT ${sql} FROM (SELECT materialize('x') AS url)`, params)
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(ClickHouseError)
    expect(refusedPatternPath(error, filter)).toBe('1.conditions.1.value')
    expect(refusedPatternPath(error, { type: 'and', conditions: filter })).toBe('conditions.1.conditions.1.value')

    expect(refusedPatternPath(error, filterOf())).toBeUndefined()
    const other = new ClickHouseError(241, `too much memory, after ${refused.value}: re2: ${refused.value}, error`)
    expect(refusedPatternPath(other, filter)).toBeUndefined()
  })
})
