import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import { parseExactly } from './parse-exactly.ts'
import { parseJson } from './parse-json.ts'

/** Names with a backslash, which V8 confuses with the source of escaped names. */
const confusing = ['\\', '\\u', '\\u0', '\\n', 'gr\\u0', 'gr\\u00']

describe.each([
  ['parseJson', parseJson],
  ['parseExactly', parseExactly],
])('%s keeps an escaped name after', (_name, parse) => {
  test.each(confusing)('%j', (name) => {
    parse(`{"site_id":"a",${JSON.stringify(name)}:1}`)
    const names = [
      String.raw`\u5e74\u9f62`,
      String.raw`gr\u00f6\u00dfe`,
      String.raw`\"`,
      String.raw`\n`,
      String.raw`\u0000`,
    ]
    for (const escaped of names) {
      const expected = ['site_id', JSON.parse(`"${escaped}"`)]
      expect(Object.keys(parse(`{"site_id":"b","${escaped}" :30}`) as object)).toStrictEqual(expected)
      expect(Object.keys(parse(`{"site_id":"b","${escaped}":9007199254740993}`) as object)).toStrictEqual(expected)
    }
  })
})

interface Text {
  value: unknown
  json: string
}

/** A text as JSON in which each character may be escaped. */
const text = fc
  .array(fc.tuple(fc.constantFrom('\\', '"', 'u', '0', 'n', 'é', '\n', '\0', '/', ':', '😀', ' '), fc.boolean()), {
    maxLength: 8,
  })
  .map((characters) => ({
    value: characters.map(([character]) => character).join(''),
    json: `"${characters.map(([character, isEscaped]) => (isEscaped ? escape(character) : plain(character))).join('')}"`,
  }))

const plain = (character: string): string => JSON.stringify(character).slice(1, -1)
const escape = (character: string): string =>
  Array.from(character.split(''), (unit) => String.raw`\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')

const space = fc.constantFrom('', ' ', '\n', '\t\r')

const { value: anyJson } = fc.letrec<{ value: Text }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.constantFrom<Text>({ value: 1, json: '1' }, { value: null, json: 'null' }, { value: [], json: '[]' }),
    fc
      .array(tie('value'), { maxLength: 3 })
      .map((items) => ({ value: items.map(({ value }) => value), json: `[${items.map(({ json }) => json).join()}]` })),
    fc
      .array(fc.tuple(fc.oneof(text, fc.constant({ value: '__proto__', json: '"__proto__"' })), tie('value'), space))
      .map((members) => ({
        value: Object.fromEntries(members.map(([name, { value }]) => [name.value, value])),
        json: `{${members.map(([name, { json }, gap]) => `${name.json}${gap}:${gap}${json}`).join()}}`,
      })),
  ),
}))

test('any JSON has the names and values that were written', () => {
  fc.assert(
    fc.property(anyJson, ({ value, json }) => {
      const parsed = parseJson(json)
      expect(parsed).toStrictEqual(value)
      expect(JSON.stringify(parsed)).toBe(JSON.stringify(value))
    }),
    { numRuns: 5_000 },
  )
})

/** Whether a function throws a SyntaxError. */
function isRefused(read: () => unknown): boolean {
  try {
    read()
    return false
  } catch (error) {
    expect(error).toBeInstanceOf(SyntaxError)
    return true
  }
}

test('a text with another character is refused exactly if JSON.parse refuses it', () => {
  let refused = 0
  const character = fc.constantFrom('"', '\\', ':', ',', 'u', '{', '}', 'x', '1', '')
  fc.assert(
    fc.property(anyJson, fc.nat(), character, ({ json }, position, inserted) => {
      const at = position % (json.length + 1)
      const changed = json.slice(0, at) + inserted + json.slice(at + (inserted === '' ? 1 : 0))
      const isJson = !isRefused(() => JSON.parse(changed))
      if (!isJson) refused++
      expect(isRefused(() => parseJson(changed))).toBe(!isJson)
    }),
    { numRuns: 5_000 },
  )
  // The test is meaningful only if many are.
  expect(refused).toBeGreaterThan(1_000)
})

test.each([
  String.raw`["a"\u002c":x"]`,
  String.raw`{"a"\u003a":b"}`,
  String.raw`{"a\":1}`,
  String.raw`{\":1}`,
  String.raw`{"\x":1}`,
  String.raw`\":`,
  String.raw`{"\n":1`,
  String.raw`{"a":1}\n":`,
  '\\',
])('%j is not JSON', (json) => {
  expect(() => parseJson(json)).toThrow(SyntaxError)
})

test('thousands of levels and megabytes of escapes take linear time and little memory', () => {
  const texts = [
    `["${'\\\\'.repeat(2_000_000)}"]`,
    `[${'"\\n",'.repeat(500_000)}1]`,
    `{${'"\\n":1,'.repeat(300_000)}"a":1}`,
    `["\\n"${' '.repeat(4_000_000)}]`,
    `[{"\\n":1}${',1'.repeat(1_000_000)}]`,
    `${'{"\\n":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
  ]
  for (const json of texts) {
    const elapsedMs = startCpuStopwatch()
    parseJson(json)
    expect(elapsedMs()).toBeLessThan(10_000)
  }
})
