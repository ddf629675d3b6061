import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { EventRow } from '@sluice/contracts/event-columns'
import { AppError } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { hasRoundedNumber } from '@sluice/runtime/rounded-numbers'
import { receivedAt, rowOf } from '../../tests/support/example-events.ts'
import { expectedLine, newId } from '../../tests/support/oracle/expected-line.ts'
import { encodeEvent } from './encode-event.ts'

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

const texts = ['session_id', 'user_id', 'url', 'referrer', 'anonymous_id', 'event_id'] as const
const known: readonly string[] = [
  'site_id',
  'event_type',
  'timestamp',
  'country',
  'device_type',
  'properties',
  ...texts,
]

/**
 * Any UTF-16 including lone surrogates, and names that are special in prototypes. Texts that are rejected are rare:
 * otherwise nearly every event would be rejected.
 */
const word = fc.oneof(
  { weight: 50, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }) },
  { weight: 20, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }) },
  {
    weight: 30,
    arbitrary: fc.constantFrom('__proto__', 'constructor', 'toString', 'a', 'a.b', 'b', '1', '\uD800', 'x\uDC00'),
  },
  { weight: 1, arbitrary: fc.constantFrom('', '\0', '\0b') },
  { weight: 1, arbitrary: fc.constantFrom(64, 65, 128, 129, 2048, 2049).map((length) => 'x'.repeat(length)) },
)
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(0, 1e21, 1e-7),
)
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    word,
    number,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(word, tie('json'), { maxKeys: 5, noNullPrototype: false }),
  ),
}))
const fields = fc.dictionary(word, json, { maxKeys: 6 })

/** Mostly valid events, with some invalid values. */
const event = fc.oneof(
  {
    weight: 9,
    arbitrary: fc
      .tuple(
        fields,
        fc.record(
          {
            site_id: fc.oneof({ weight: 20, arbitrary: fc.constantFrom('shop', 's\uD800', '\u{1F600}') }, json),
            event_type: fc.oneof({ weight: 20, arbitrary: fc.constantFrom('view', 'Kauf ✓') }, json),
            timestamp: fc.oneof(
              { weight: 20, arbitrary: fc.double({ min: 4e10, max: receivedAt, noNaN: true }) },
              fc.integer(),
              json,
            ),
            country: fc.oneof({ weight: 20, arbitrary: fc.constantFrom('de', 'US', '9a', '', null) }, json),
            device_type: fc.oneof({ weight: 20, arbitrary: fc.constantFrom('Mobile', 'desktop', '', null) }, json),
            properties: fc.oneof({ weight: 9, arbitrary: fields }, json),
            ...Object.fromEntries(
              texts.map((name) => [name, fc.oneof({ weight: 9, arbitrary: word }, { weight: 1, arbitrary: json })]),
            ),
          },
          { requiredKeys: ['site_id', 'event_type'] },
        ),
      )
      .map(([others, record]) => ({ ...others, ...record })),
  },
  { weight: 1, arbitrary: json },
)

/** The value as it is parsed from a JSON body: without -0, and with own properties only. */
function parsed(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json
}

/** The encoded event, or the message of its refusal. */
function outcomeOf(encode: () => string): string {
  try {
    return encode()
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect(['missing_field', 'invalid_field', 'invalid_format']).toContain(error.code)
    return error.message
  }
}

const generatedId = /"event_id":"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"/

/** What is added to integers, by their first digit. */
const longer: Record<string, string> = {
  7: '1234567890123456789',
  8: '.1234567890123456789',
  9: '1234567890123456789e-30',
}

test('every value is refused or encoded as the rules have it, byte for byte', () => {
  let rows = 0
  let refusals = 0
  let exact = 0
  fc.assert(
    fc.property(event, (sent) => {
      // Parsed as in a request, so that `__proto__` is an own key. Some numbers get more digits than a double holds.
      const text = JSON.stringify(sent).replaceAll(
        /(?<=[:[,])(-?[789]\d*)(?=[\]},])/g,
        (integer) => integer + (longer[integer.replace('-', '')[0] ?? ''] ?? ''),
      )
      if (hasRoundedNumber(text)) exact++
      const value = parseExactly(text)
      let bytesAtMost = Infinity
      let hasNewId = false
      const ours = outcomeOf(() => {
        const encoded = encodeEvent(value, { receivedAt, environment: 'prod' })
        bytesAtMost = encoded.bytesAtMost
        hasNewId = encoded.keyHash === undefined
        const row = JSON.parse(encoded.line) as EventRow
        expect(encoded).toMatchObject({ siteId: row.site_id, timestamp: row.timestamp, undated: row.undated === 1 })
        return hasNewId ? encoded.line.replace(generatedId, `"event_id":"${newId}"`) : encoded.line
      })
      expect(ours).toBe(outcomeOf(() => expectedLine(value, { receivedAt })))
      expect(ours.isWellFormed()).toBe(true)
      if (bytesAtMost === Infinity) refusals++
      else {
        rows++
        expect(Buffer.byteLength(JSON.stringify(value))).toBeLessThanOrEqual(bytesAtMost)
        expect(ours.indexOf('\n')).toBe(ours.length - 1)
        // JSON.stringify writes lone surrogates and NUL as escapes.
        expect(ours).not.toMatch(/\\u0000|(?<!\\)(?:\\\\)*\\ud[89a-f]/i)
      }
    }),
    // A rare value: instead of an object, an integer that a double can't hold.
    { numRuns: 5_000, examples: [[Number.MIN_SAFE_INTEGER - 1]] },
  )
  // The test is meaningful only if all of these are frequent.
  expect(rows).toBeGreaterThan(1_000)
  expect(refusals).toBeGreaterThan(500)
  expect(exact).toBeGreaterThan(100)
})

/** Every leaf of the properties with its dotted path, in order: the expected result of flattening. */
function leaves(value: Record<string, Json>, path: string[] = []): [path: string, leaf: Json][] {
  return Object.entries(value).flatMap(([name, item]): [string, Json][] => {
    const here = [...path, name.toWellFormed()]
    if (item === null) return []
    if (typeof item === 'object' && !Array.isArray(item)) return leaves(item, here)
    return [[here.join('.'), wellFormed(item)]]
  })
}

function wellFormed(value: Json): Json {
  if (typeof value === 'string') return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name.toWellFormed(), wellFormed(item)]))
}

function restoreProperties(row: EventRow): Map<string, Json> {
  const types = new Map(Object.entries(row.property_types ?? {}))
  return new Map(
    Object.entries(row.properties ?? {}).map(([name, text]): [string, Json] => {
      const type = types.get(name)
      types.delete(name)
      return [name, type === undefined ? text : (JSON.parse(text) as Json)]
    }),
  )
}

test('a row has exactly the fields and properties that were sent', () => {
  let rows = 0
  fc.assert(
    fc.property(event, (sent) => {
      const value = parsed(sent)
      let row: EventRow
      try {
        row = rowOf(value)
      } catch (error) {
        expect(error).toBeInstanceOf(AppError)
        return
      }
      rows++
      const { properties, ...topLevel } = value as Record<string, Json>
      for (const name of ['site_id', 'event_type', ...texts] as const) {
        const text = topLevel[name] ?? ''
        const newEventId = name === 'event_id' && text === '' ? 'made' : undefined
        expect(row[name] ?? '').toBe(newEventId ?? (text as string).toWellFormed())
      }
      expect(row.country ?? '').toBe(((topLevel.country ?? '') as string).toUpperCase())
      expect(row.device_type ?? '').toBe(((topLevel.device_type ?? '') as string).toLowerCase())
      const timestamp = topLevel.timestamp === '' ? null : (topLevel.timestamp ?? null)
      expect(row.timestamp).toBe(timestamp === null ? receivedAt : Math.trunc(timestamp as number))
      expect(row.undated === 1).toBe(timestamp === null && row.event_id !== 'made')

      const unknown = Object.fromEntries(Object.entries(topLevel).filter(([name]) => !known.includes(name)))
      const sentProperties =
        typeof properties === 'object' && properties !== null ? (properties as Record<string, Json>) : {}
      expect(restoreProperties(row)).toEqual(new Map([...leaves(unknown), ...leaves(sentProperties)]))
    }),
    { numRuns: 1_000 },
  )
  expect(rows).toBeGreaterThan(200)
})
