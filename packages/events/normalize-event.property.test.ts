import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { EventRow } from '@sluice/contracts/event-columns'
import { AppError } from '@sluice/runtime/errors'
import { receivedAt } from '../../tests/support/example-events.ts'
import { normalizeEvent } from './normalize-event.ts'

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

/** The value as a JSON body brings it: without -0, and with own properties only. */
function parsed(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json
}

function rowOf(value: Json): EventRow | undefined {
  try {
    return normalizeEvent(value, { receivedAt, environment: 'prod', newEventId: () => 'made' }).row
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect(['missing_field', 'invalid_field', 'invalid_format']).toContain(error.code)
    expect(error.message).toMatch(/^(Missing required field: |Invalid field: |Invalid format: )./s)
    expect(error.message.isWellFormed()).toBe(true)
    return undefined
  }
}

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

test('every value is either rejected with 400 or becomes the same row of well-formed JSON each time', () => {
  let rows = 0
  fc.assert(
    fc.property(event, (sent) => {
      const value = parsed(sent)
      const row = rowOf(value)
      expect(rowOf(value)).toStrictEqual(row)
      if (row === undefined) return
      rows++
      const text = JSON.stringify(row)
      expect(JSON.parse(text)).toEqual(row)
      expect(text.isWellFormed()).toBe(true)
      // JSON.stringify writes lone surrogates and NUL as escapes.
      expect(text).not.toMatch(/\\u0000|\\ud[89a-f]/i)
      expect(text).not.toContain('\n')
      expect(Number.isSafeInteger(row.timestamp)).toBe(true)
    }),
    { numRuns: 1_000 },
  )
  // The test is meaningful only if enough events are accepted.
  expect(rows).toBeGreaterThan(200)
})

test('a row has exactly the fields and properties that were sent', () => {
  let rows = 0
  fc.assert(
    fc.property(event, (sent) => {
      const value = parsed(sent)
      const row = rowOf(value)
      if (row === undefined) return
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
