import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { operators } from '@sluice/contracts/conditions'
import { deviceTypes } from '@sluice/contracts/event-fields'
import fc from 'fast-check'
import { type AskedCondition, type ConditionEvent, matchesCondition } from '../../tests/oracle/matches-condition.ts'
import { type ConditionDatabase, openConditionDatabase } from './conditions.test-support.ts'

let database: ConditionDatabase

beforeAll(async () => {
  database = await openConditionDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** What matters to numbers, SQL, LIKE, regular expressions, parameters, JSON or Unicode. */
const texts = [
  ...['1', '1.0', '-1', '+1', '10', '9', '1e1', '.5', '5.', ' 1', '1 ', '0x10', '1_0', '1,5', '٣', '1e', '-', '1\n'],
  ...['NaN', 'inf', 'Infinity', '-inf', '1e400', '9007199254740993', '0.1', '0.30000000000000004', '5e-324', '00'],
  ...['true', 'false', 'null', 'NULL', '\\N', '[1,2]', '["1"]', '{}', '{c0_0:String}', '{users:String}', '?', '$1'],
  ...["o'neil", "'", "''", '"', '`', '\\', '\\\\', "\\'", '\\n', '%', '_', '100%', 'a_b', 'a%b', 'ab', 'a.b', 'a\\b'],
  ...['\n', 'a\nb', '\r\n', '\t', '\u0001', '\u007F', '\u2028', '\uFFFD', ' ', 'a', 'A', 'aa', 'a b', '-- ', '/*', ';'],
  ...['naïve', 'nai\u0308ve', 'ß', 'İ', 'ı', 'Ü', 'ü', '😀', '😀😀', '\uD83D', 'ключ', '日本', '\u202E'],
  ...['^a', 'a$', '.*', '(a)', '[a]', 'a|b', 'a*', '\\d', '(?i)a', 'DE', 'de', 'SS', 'Mobile', 'x'.repeat(2_048)],
]

const text = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...texts) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 5 }).map((drawn) => drawn.replaceAll('\0', '')) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...texts), fc.constantFrom('', ...texts)).map(short) },
)
const number = fc.oneof(fc.constantFrom(0, -0, 1, -1, 9, 10, 0.1, 1e21, 1e-7, 2 ** 53), fc.double({ noNaN: true }))

function short([one, other]: [string, string]): string {
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
const parts = ['/', '/a/b', '/caf%C3%A9/ü', 'shop.example.com', 'SHOP.example.com', 'localhost', '[2001:db8::1]']

/** What a field holds: nothing in a third of the events. */
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

/** JSON.parse makes `__proto__` a key like any other; what is ill-formed is mended before it is compared. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]: [string, unknown]) => [key.toWellFormed(), item]))
}

const users: readonly NonNullable<ConditionEvent['user']>[] = [
  { email: "o'neil@example.com", name: 'a%b', company: '10', plan: 'pro' },
  { name: '😀', plan: '' },
]

/** Patterns that mean the same to JavaScript. */
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
  // What fields hold, in any case: seldom met by chance.
  {
    weight: 3,
    arbitrary: fc.constantFrom(...parts, 'pro', 'mobile', 'DESKTOP', 'tab', 'view', 'a', 'A', 'e', 'de', 'Ss', '1'),
  },
  { weight: 1, arbitrary: number.filter(Number.isFinite) },
  { weight: 1, arbitrary: fc.boolean() },
)
const numberValue = fc.oneof(
  number.filter(Number.isFinite),
  fc.constantFrom('1', '1.0', '+1', '-1', '1e1', '.5', '5.', '9', '10', '9007199254740993', '0.30000000000000004'),
)

const condition: fc.Arbitrary<AskedCondition> = fc
  .tuple(propertyNames, fc.constantFrom(...operators))
  .chain(([property, operator]): fc.Arbitrary<AskedCondition> => {
    const asked = { property, operator }
    if (operator === 'exists' || operator === 'not_exists') return fc.constant(asked)
    if (operator === 'in' || operator === 'not_in') {
      const list = fc.array(value, { minLength: 1, maxLength: 4 }).filter((items) => !items.includes(''))
      return list.map((items) => ({ ...asked, value: items }))
    }
    if (operator === 'matches') return pattern.filter((each) => each !== '').map((each) => ({ ...asked, value: each }))
    const isOfNumbers = /^(greater|less)/.test(operator)
    return (isOfNumbers ? numberValue : value.filter((each) => each !== '')).map((each) => ({ ...asked, value: each }))
  })

const criteria: fc.Arbitrary<AskedCondition> = fc.oneof(
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

test('ClickHouse finds met what the oracle does, for 3,000 conditions on 40 events each', async () => {
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
        const answers = await database.ask(events, conditions)
        expect(answers).toHaveLength(events.length)
        const differences = events.flatMap((each, row) =>
          conditions
            .filter((asked, column) => answers[row]?.[column] !== matchesCondition(each, asked))
            .map((asked) => ({ event: each, asked })),
        )
        expect(differences.slice(0, 3)).toStrictEqual([])
        met += answers.flat().filter(Boolean).length
        all += answers.flat().length
      },
    ),
    { numRuns: 10, endOnFailure: true },
  )
  // Neither side is right by always saying the same.
  expect(met / all).toBeGreaterThan(0.2)
  expect(met / all).toBeLessThan(0.8)
}, 120_000)
