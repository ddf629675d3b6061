import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { receivedAt } from '../../tests/support/example-events.ts'
import { encodeRowFast } from './encode-row-fast.ts'
import { normalizeEvent } from './normalize-event.ts'

/** Mostly plain texts, with some at and beyond each limit. */
const text = (lengthMax: number) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 20 }) },
    {
      weight: 2,
      arbitrary: fc.constantFrom(lengthMax - 1, lengthMax, lengthMax + 1).map((length) => 'x'.repeat(length)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '\u{1F600}'.repeat(lengthMax),
        '\u{1F600}',
        '\ud800',
        'a\0',
        '',
        null,
        7,
        '\u001f'.repeat(lengthMax),
      ),
    },
  )
const item = fc.oneof(
  { weight: 10, arbitrary: text(2048) },
  { weight: 5, arbitrary: fc.double() },
  { weight: 5, arbitrary: fc.boolean() },
  { weight: 1, arbitrary: fc.constantFrom<unknown>([1], { a: 1 }, {}, null, -0, 1e21, 2 ** 60) },
)
const name = fc.oneof(
  { weight: 20, arbitrary: fc.string({ minLength: 1, maxLength: 8 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '__proto__',
      'constructor',
      '',
      'x'.repeat(128),
      'x'.repeat(129),
      'a\0',
      '\ud800',
      '7',
      '1',
      'a.b',
    ),
  },
)
const properties = fc.oneof(
  { weight: 20, arbitrary: fc.dictionary(name, item, { maxKeys: 6 }) },
  { weight: 1, arbitrary: fc.constantFrom<unknown>([], null, '', 'x', 1) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(99, 100, 101)
      .map((keys) => Object.fromEntries(Array.from({ length: keys }, (_, n) => [`k${n}`, n]))),
  },
)
const known = fc.record(
  {
    site_id: text(64),
    event_type: text(64),
    timestamp: fc.oneof(
      { weight: 10, arbitrary: fc.integer({ min: Date.UTC(1971, 0), max: receivedAt }) },
      fc.constantFrom<unknown>(
        Date.UTC(1971, 0) - 1,
        receivedAt + 86_400_000,
        receivedAt + 86_400_001,
        1e12 + 0.5,
        '1',
        null,
        Infinity,
      ),
    ),
    session_id: text(64),
    user_id: text(64),
    url: text(2048),
    referrer: text(2048),
    country: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom('DE', 'US', '9A') },
      fc.constantFrom<unknown>('de', 'DEU', '', null, 'D\n'),
    ),
    device_type: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom('mobile', 'desktop', 'tablet') },
      fc.constantFrom<unknown>('Mobile', '', 1),
    ),
    anonymous_id: text(64),
    event_id: text(64),
    properties,
  },
  { requiredKeys: ['site_id', 'event_type'] },
)
const event = fc.oneof(
  { weight: 20, arbitrary: known },
  {
    weight: 1,
    arbitrary: fc.tuple(known, name, item).map(([fields, other, value]) => ({ ...fields, [other]: value })),
  },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(null, [], 'x', 1, {}) },
)

test('the fast encoder writes the same row as normalizeEvent', () => {
  let fastRows = 0
  const runs = 5_000
  const context = { receivedAt, environment: 'prod' as const, newEventId: () => 'made' }
  fc.assert(
    fc.property(event, (sent) => {
      // Parsed from JSON as in a request, so that `__proto__` is an own key.
      const text = JSON.stringify(sent)
      const value: unknown = JSON.parse(text)
      for (const escapeFree of text.includes('\\') ? [false] : [false, true]) {
        const fastRow = encodeRowFast(value, context, escapeFree)
        if (fastRow === undefined) continue
        if (!escapeFree) fastRows++
        const { row, clientId } = normalizeEvent(value, context)
        expect(JSON.parse(fastRow.json)).toEqual(JSON.parse(JSON.stringify(row)))
        expect(fastRow.siteId).toBe(row.site_id)
        expect(fastRow.eventId).toBe(clientId ? row.event_id : undefined)
        expect(fastRow.undated).toBe(row.undated === 1)
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(Buffer.byteLength(fastRow.json))
      }
    }),
    { numRuns: runs },
  )
  // The test is meaningful only if both paths are taken often.
  expect(fastRows).toBeGreaterThan(runs / 10)
  expect(fastRows).toBeLessThan((runs * 9) / 10)
})
