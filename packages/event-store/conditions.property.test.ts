import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { operators } from '@sluice/contracts/conditions'
import { deviceTypes } from '@sluice/contracts/event-limits'
import { type ConditionDatabase, openConditionDatabase } from '../../tests/support/condition-database.ts'
import {
  type ConditionEvent,
  matchesCondition,
  type RawCondition,
} from '../../tests/support/oracle/matches-condition.ts'

let database: ConditionDatabase

beforeAll(async () => {
  database = await openConditionDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** Texts with a meaning in numbers, SQL, LIKE, regular expressions, parameters, JSON or Unicode. */
const texts = [
  ...['1', '1.0', '-1', '+1', '10', '9', '1e1', '.5', '5.', ' 1', '1 ', '0x10', '1_0', '1,5', '٣', '1e', '-', '1\n'],
  ...['NaN', 'inf', 'Infinity', '-inf', '1e400', '9007199254740993', '0.1', '0.30000000000000004', '5e-324', '00'],
  ...['0.1234567890123456789', '3.00000000000000000001', '1e-400', '123456789012345678e-20'],
  ...['true', 'false', 'null', 'NULL', '\\N', '[1,2]', '["1"]', '{}', '{c0_0:String}', '{users:String}', '?', '$1'],
  ...["o'neil", "'", "''", '"', '`', '\\', '\\\\', "\\'", '\\n', '%', '_', '100%', 'a_b', 'a%b', 'ab', 'a.b', 'a\\b'],
  ...['\n', 'a\nb', '\r\n', '\t', '\u0001', '\u007F', '\u2028', '\uFFFD', ' ', 'a', 'A', 'aa', 'a b', '-- ', '/*', ';'],
  ...['naïve', 'nai\u0308ve', 'ß', 'İ', 'ı', 'Ü', 'ü', '😀', '😀😀', '\uD83D', 'ключ', '日本', '\u202E'],
  ...['^a', 'a$', '.*', '(a)', '[a]', 'a|b', 'a*', '\\d', '(?i)a', 'DE', 'de', 'SS', 'Mobile', 'x'.repeat(2_048)],
]

const text = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...texts) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 5 }).map((drawn) => drawn.replaceAll('\0', '')) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...texts), fc.constantFrom('', ...texts)).map(concatenate) },
)
const number = fc.oneof(fc.constantFrom(0, -0, 1, -1, 9, 10, 0.1, 1e21, 1e-7, 2 ** 53), fc.double({ noNaN: true }))

function concatenate([one, other]: [string, string]): string {
  return (one + other).slice(0, 2_000)
}

const names = [
  ...['plan', 'a.b', 'A', '__proto__', 'constructor', 'toString', "o'k", '"', '\\', "\\'", '%', '_', '`', '😀'],
  ...['{c0_0:String}', 'x y', '\n', '\\n', 'user.email', 'properties.plan', 'ключ', '\uD800', 'x'.repeat(128)],
]

const url = fc.oneof(
  { weight: 1, arbitrary: text },
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        fc.constantFrom('https://', 'HTTP://', 'https://Ada:pw@', ''),
        fc.constantFrom('shop.example.com', 'Shop.Example.com', 'localhost', '10.0.0.1', '[2001:DB8::1]'),
        fc.constantFrom('', ':8080'),
        fc.constantFrom('', '/', '/a/b', '/caf%C3%A9/ü', '/a//b/', "/o'neil"),
        fc.constantFrom('', '?', '?q=/x/y', '?u=https://other.example/z#/t', '#', '#/top?x'),
      )
      .map(([scheme, host, port, path, rest]) => (scheme === '' ? path : scheme + host + port + path) + rest),
  },
)
const urlParts = ['/', '/a/b', '/caf%C3%A9/ü', 'shop.example.com', 'SHOP.example.com', 'localhost', '[2001:db8::1]']

/** Leaves a field out of a third of the events. */
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 3 })

const fields = {
  event_type: fc.constantFrom('view', 'purchase', "o'neil", '1', 'a.b', '%'),
  url: optional(url),
  referrer: optional(url),
  country: optional(fc.constantFrom('DE', 'de', 'ss', 'SS', '1a')),
  device_type: optional(fc.constantFrom(...deviceTypes, 'Mobile')),
  session_id: optional(text.map((drawn) => drawn.slice(0, 60))),
  user_id: optional(fc.integer({ min: 1, max: 3 }).map(String)),
  anonymous_id: optional(text.map((drawn) => drawn.slice(0, 60))),
}

const event: fc.Arbitrary<ConditionEvent> = fc
  .record({
    ...fields,
    properties: fc.dictionary(
      fc.constantFrom(...names),
      fc.oneof(text, text, number, fc.boolean(), fc.constant(null), fc.constant(''), fc.array(fc.oneof(text, number))),
      { maxKeys: 12, noNullPrototype: false },
    ),
  })
  .map((drawn) => JSON.parse(JSON.stringify(drawn), (_, value: unknown) => wellFormed(value)) as ConditionEvent)

/** Repairs ill-formed UTF-16, as the gateway does. JSON.parse makes `__proto__` a key like any other. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]: [string, unknown]) => [key.toWellFormed(), item]))
}

const users: readonly NonNullable<ConditionEvent['user']>[] = [
  { email: "o'neil@example.com", name: 'a%b', company: '10', plan: 'pro' },
  { name: '😀', plan: '' },
]

/** Patterns that have the same meaning in JavaScript. */
const pattern = fc.oneof(
  fc.constantFrom(...texts).map((each) =>
    each
      .slice(0, 40)
      .toWellFormed()
      .replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'),
  ),
  fc.constantFrom(
    '^a',
    'a$',
    '^.$',
    '^..$',
    '\\d+',
    '[^a]',
    '(a|b)c?',
    '^\\d{2,3}$',
    '[ä-ü]',
    '^$',
    'x*',
    'a.b',
    '😀?',
  ),
  fc.constantFrom('^[a-z]+\\.[a-z]+', '(?:o|n)[\'"]', '^[^\\n]+$', '\\\\', '%', '^https?://[^/]+/a', '[\\]a]', '😀{2}'),
)

const propertyNames = fc.oneof(
  fc.constantFrom(...Object.keys(fields), 'path', 'referrer_host'),
  fc.constantFrom(...names).map((name) => `properties.${name}`),
  fc.constantFrom('user.email', 'user.name', 'user.company', 'user.plan', 'email', 'name', 'company', 'plan'),
)

const value = fc.oneof(
  { weight: 3, arbitrary: text },
  // Values that fields hold, in any case; random texts would seldom be equal to them.
  {
    weight: 3,
    arbitrary: fc.constantFrom(...urlParts, 'pro', 'mobile', 'DESKTOP', 'tab', 'view', 'a', 'A', 'e', 'de', 'Ss', '1'),
  },
  // Integers beyond 2^53 are refused where texts are compared.
  {
    weight: 1,
    arbitrary: number.filter((n) => Number.isFinite(n) && (!Number.isInteger(n) || Number.isSafeInteger(n))),
  },
  { weight: 1, arbitrary: fc.boolean() },
)
const numberValue = fc.oneof(
  number.filter(Number.isFinite),
  fc.constantFrom('1', '1.0', '+1', '-1', '1e1', '.5', '5.', '9', '10', '9007199254740993', '0.30000000000000004'),
  fc.constantFrom('0', '0.1234567890123456789', '0.12345678901234568', '3', '1e-400', '0.00123456789012345678'),
)

const condition: fc.Arbitrary<RawCondition> = fc
  .tuple(propertyNames, fc.constantFrom(...operators))
  .chain(([property, operator]): fc.Arbitrary<RawCondition> => {
    const drawnCondition = { property, operator }
    if (operator === 'exists' || operator === 'not_exists') return fc.constant(drawnCondition)
    if (operator === 'in' || operator === 'not_in') {
      const list = fc.array(value, { minLength: 1, maxLength: 4 }).filter((items) => !items.includes(''))
      return list.map((items) => ({ ...drawnCondition, value: items }))
    }
    if (operator === 'matches')
      return pattern.filter((each) => each !== '').map((each) => ({ ...drawnCondition, value: each }))
    const isOfNumbers = /^(greater|less)/.test(operator)
    return (isOfNumbers ? numberValue : value.filter((each) => each !== '')).map((each) => ({
      ...drawnCondition,
      value: each,
    }))
  })

const criteria: fc.Arbitrary<RawCondition> = fc.oneof(
  { weight: 9, arbitrary: condition },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom('and', 'or'),
      conditions: fc.array(
        fc.oneof(
          { weight: 3, arbitrary: condition },
          {
            weight: 1,
            arbitrary: fc.record({
              type: fc.constantFrom('and', 'or'),
              conditions: fc.array(condition, { minLength: 1, maxLength: 3 }),
            }),
          },
        ),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
)

test('ClickHouse and the oracle agree about 3,000 conditions on 40 events each', async () => {
  let met = 0
  let all = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 40, maxLength: 40 }),
      fc.array(criteria, { minLength: 300, maxLength: 300 }),
      async (drawn, conditions) => {
        const events = drawn.map((each) => {
          const user = users[Number(each.user_id) - 1]
          return user === undefined ? each : { ...each, user }
        })
        const answers = await database.evaluate(events, conditions)
        expect(answers).toHaveLength(events.length)
        const differences = events.flatMap((each, row) =>
          conditions
            .filter((drawnCondition, column) => answers[row]?.[column] !== matchesCondition(each, drawnCondition))
            .map((drawnCondition) => ({ event: each, drawnCondition })),
        )
        expect(differences.slice(0, 3)).toStrictEqual([])
        met += answers.flat().filter(Boolean).length
        all += answers.flat().length
      },
    ),
    { numRuns: 10, endOnFailure: true },
  )
  // The results are mixed, so that neither side can agree by returning a constant.
  expect(met / all).toBeGreaterThan(0.2)
  expect(met / all).toBeLessThan(0.8)
})
