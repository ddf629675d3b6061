import { describe, expect, test } from '@jest/globals'
import { receivedAt, refusal, rowFromText, rowOf, rowWith } from '../../tests/support/example-events.ts'
import { encodeEvent } from './encode-event.ts'
import { eventIdOf } from './event-errors.ts'
import { newEventId } from './event-id.ts'

const face = '\u{1F600}'
const loneSurrogate = '\uD83D'

describe('the row', () => {
  test('of an event with only the required fields has the time of receipt and a new id', () => {
    expect(rowWith({})).toStrictEqual({
      site_id: 'shop',
      environment: 'prod',
      event_type: 'view',
      timestamp: receivedAt,
      event_id: 'made',
      received_at: receivedAt,
    })
  })

  test('of an event with every field has them all', () => {
    const event = {
      site_id: 'shop',
      event_type: 'Order Completed ✓',
      timestamp: receivedAt - 5_000,
      session_id: 's1',
      user_id: 'ada',
      url: 'https://shop.example/?a=1',
      referrer: 'not even a URL',
      country: 'de',
      device_type: 'Mobile',
      anonymous_id: 'a1',
      event_id: 'e1',
      properties: { price: 9.5 },
    }
    expect(rowOf(event)).toEqual({
      ...event,
      environment: 'prod',
      country: 'DE',
      device_type: 'mobile',
      properties: { price: '9.5' },
      property_types: { price: 'number' },
      received_at: receivedAt,
    })
  })

  test('has the environment of the credential, whatever the event says', () => {
    const event = { site_id: 'shop', event_type: 'view', environment: 'prod' }
    const { line } = encodeEvent(event, { receivedAt, environment: 'dev' })
    expect(JSON.parse(line)).toMatchObject({ environment: 'dev', properties: { environment: 'prod' } })
  })

  test('cannot be forged by sending fields that only rows have', () => {
    const row = rowWith({ received_at: 1, undated: 1, property_types: { a: 'number' }, environment: 'dev' })
    expect(row).toMatchObject({ environment: 'prod', received_at: receivedAt })
    expect(row).not.toHaveProperty('undated')
    expect(row.properties).toEqual({
      received_at: '1',
      undated: '1',
      'property_types.a': 'number',
      environment: 'dev',
    })
  })
})

describe.each([null, undefined, 'text', 5, true, [], [{ site_id: 'shop', event_type: 'view' }]])('%j', (event) => {
  test('is not an event', () =>
    expect(refusal(() => rowOf(event))).toBe('Invalid format: an event must be a JSON object'))
})

describe.each(['site_id', 'event_type'])('%s', (field) => {
  const event = { site_id: 'shop', event_type: 'view' }

  test.each([undefined, null, ''])('is missing when it is %j', (value) => {
    expect(refusal(() => rowOf(JSON.parse(JSON.stringify({ ...event, [field]: value }))))).toBe(
      `Missing required field: ${field}`,
    )
  })
})

describe.each([
  ['site_id', 64],
  ['event_type', 64],
  ['session_id', 64],
  ['user_id', 64],
  ['url', 2048],
  ['referrer', 2048],
  ['anonymous_id', 64],
  ['event_id', 64],
] as const)('%s', (field, max) => {
  test(`has at most ${max} code points, and longer texts are rejected instead of cut`, () => {
    for (const character of ['x', face, '\u0301']) {
      expect(rowWith({ [field]: character.repeat(max) })[field]).toBe(character.repeat(max))
      expect(refusal(() => rowWith({ [field]: character.repeat(max + 1) }))).toBe(
        `Invalid field: ${field} exceeds maximum length of ${max}`,
      )
    }
  })

  test('is stored unchanged with any characters and spaces', () => {
    const value = ` Ünï\n\t"\\ \u2028${face} `
    expect(rowWith({ [field]: value })[field]).toBe(value)
  })

  test('gets U+FFFD for ill-formed UTF-16', () => {
    expect(rowWith({ [field]: `a${loneSurrogate}b` })[field]).toBe('a\uFFFDb')
  })

  test('must not have NUL characters', () => {
    expect(refusal(() => rowWith({ [field]: 'a\0' }))).toBe(`Invalid field: ${field} must not contain NUL characters`)
  })

  test.each([5, true, {}, ['a']])('must be a string, not %j', (value) => {
    expect(refusal(() => rowWith({ [field]: value }))).toBe(`Invalid field: ${field} must be a string`)
  })
})

describe.each([
  'timestamp',
  'session_id',
  'user_id',
  'url',
  'referrer',
  'country',
  'device_type',
  'anonymous_id',
  'event_id',
  'properties',
])('%s', (field) => {
  test.each([null, ''])('is absent when it is %j', (value) => {
    expect(rowWith({ [field]: value })).toStrictEqual(rowWith({}))
  })
})

describe('timestamp', () => {
  const day = 24 * 3_600_000
  const in1971 = Date.UTC(1971, 0, 1)

  test('is stored in milliseconds without a fraction', () => {
    expect(rowWith({ timestamp: receivedAt - 1 }).timestamp).toBe(receivedAt - 1)
    expect(rowWith({ timestamp: receivedAt - 0.25 }).timestamp).toBe(receivedAt - 1)
    expect(rowFromText('"timestamp": 1.7e12').timestamp).toBe(1_700_000_000_000)
  })

  test('may be at most 24 hours in the future', () => {
    expect(rowWith({ timestamp: receivedAt + day }).timestamp).toBe(receivedAt + day)
    for (const timestamp of [receivedAt + day + 1, receivedAt + day + 0.5, 9e15, Number.MAX_VALUE]) {
      expect(refusal(() => rowWith({ timestamp }))).toBe(
        'Invalid field: timestamp must not be more than 24 hours in the future',
      )
    }
  })

  test('must not be before 1971, so that seconds in place of milliseconds are rejected', () => {
    expect(rowWith({ timestamp: in1971 }).timestamp).toBe(in1971)
    for (const timestamp of [in1971 - 1, in1971 - 0.5, Math.floor(receivedAt / 1000), 0, -0, -receivedAt, -1e300]) {
      expect(refusal(() => rowWith({ timestamp }))).toBe(
        'Invalid field: timestamp must be Unix time in milliseconds, not before 1971',
      )
    }
  })

  test.each(['1e999', '-1e999'])('must be finite, unlike %s', (number) => {
    expect(refusal(() => rowFromText(`"timestamp": ${number}`))).toBe(
      'Invalid field: timestamp must be a finite number',
    )
  })

  test.each(['2026-01-01T00:00:00Z', String(receivedAt), true, {}, [receivedAt]])(
    'must be a number, not %j',
    (value) => {
      expect(refusal(() => rowWith({ timestamp: value }))).toBe(
        'Invalid field: timestamp must be a number: Unix time in milliseconds',
      )
    },
  )
})

describe('country', () => {
  test.each([
    ['de', 'DE'],
    ['De', 'DE'],
    ['t1', 'T1'],
    ['99', '99'],
  ])('%s is stored as %s', (sent, stored) => {
    expect(rowWith({ country: sent }).country).toBe(stored)
  })

  test.each(['d', 'deu', 'd-', ' d', 'de\n', 'ß', 'ıı', 'ﬁ', '\0\0', face])('must not be %j', (country) => {
    expect(refusal(() => rowWith({ country }))).toBe('Invalid field: country must be 2 letters or digits')
  })

  test.each([49, true, ['DE']])('must be a string, not %j', (country) => {
    expect(refusal(() => rowWith({ country }))).toBe('Invalid field: country must be a string')
  })
})

describe('device_type', () => {
  test.each(['desktop', 'mobile', 'tablet', 'Desktop', 'MOBILE', 'tAbLeT'])('%s is stored in lower case', (sent) => {
    expect(rowWith({ device_type: sent }).device_type).toBe(sent.toLowerCase())
  })

  test.each(['phone', 'desktop ', 'mobİle', 'null', 5, true, ['mobile'], {}])('must not be %j', (sent) => {
    expect(refusal(() => rowWith({ device_type: sent }))).toBe(
      'Invalid field: device_type must be one of: desktop, mobile, tablet',
    )
  })
})

describe('event_id', () => {
  test('makes the row undated only if it was sent without a timestamp', () => {
    expect(rowWith({ event_id: 'e1' })).toMatchObject({ event_id: 'e1', undated: 1, timestamp: receivedAt })
    expect(rowWith({ event_id: 'e1', timestamp: null })).toHaveProperty('undated', 1)
    expect(rowWith({ event_id: 'e1', timestamp: receivedAt })).not.toHaveProperty('undated')
    expect(rowWith({ timestamp: receivedAt })).not.toHaveProperty('undated')
    expect(rowWith({})).not.toHaveProperty('undated')
  })

  test('gives the event the hash of its copies only if the client sent it', () => {
    const encode = (fields: object) =>
      encodeEvent({ site_id: 'shop', event_type: 'view', ...fields }, { receivedAt, environment: 'prod' })
    const { keyHash } = encode({ event_id: 'e1' })
    expect(keyHash).toBeDefined()
    expect(encode({ event_id: 'e1', event_type: 'click', timestamp: receivedAt }).keyHash).toBe(keyHash)
    expect(encode({ event_id: 'e2' }).keyHash).not.toBe(keyHash)
    expect(encode({ event_id: 'e1', site_id: 'blog' }).keyHash).not.toBe(keyHash)
    expect(encode({ event_id: '' }).keyHash).toBeUndefined()
    expect(encode({}).keyHash).toBeUndefined()
  })

  test('is a new UUIDv7 with the time of receipt where the client sent none', () => {
    const ids = Array.from({ length: 2_000 }, () => newEventId(receivedAt))
    const time = receivedAt.toString(16).padStart(12, '0')
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(id.replaceAll('-', '').slice(0, 12)).toBe(time)
    }
    expect(new Set(ids).size).toBe(ids.length)
    // Every bit that is not fixed takes both values.
    const bits = ids.map((id) => BigInt(`0x${id.replaceAll('-', '').slice(12)}`))
    const fixed = (0xfn << 76n) | (0x3n << 62n)
    expect(bits.reduce((all, each) => all | each) | fixed).toBe((1n << 80n) - 1n)
    expect(bits.reduce((all, each) => all & each) & ~fixed).toBe(0n)
    expect(newEventId(receivedAt + 1).slice(0, 14)).not.toBe(ids[0]?.slice(0, 14))
  })

  test('identifies an event in a list of errors only if it is valid', () => {
    expect(eventIdOf({ event_id: 'e1' })).toBe('e1')
    expect(eventIdOf({ event_id: `e${loneSurrogate}` })).toBe('e\uFFFD')
    for (const value of [null, 5, 'e1', [], {}, { event_id: 5 }, { event_id: '' }, { event_id: 'e'.repeat(65) }]) {
      expect(eventIdOf(value)).toBeUndefined()
    }
  })
})

describe('the first of several problems is reported, in the order of docs/http-interface.md#event-fields', () => {
  const table = [
    'site_id',
    'event_type',
    'timestamp',
    'session_id',
    'user_id',
    'url',
    'referrer',
    'country',
    'device_type',
    'anonymous_id',
    'event_id',
    'properties',
  ]

  test.each(table.slice(0, -1).map((field, at) => [field, table.slice(at)] as const))('%s', (field, wrong) => {
    // The fields are sent in reverse order, and this field and all later ones are invalid.
    const event = Object.fromEntries(wrong.toReversed().map((name) => [name, true]))
    expect(
      refusal(() =>
        rowOf({
          ...event,
          ...(wrong.includes('site_id') ? {} : { site_id: 'shop' }),
          ...(wrong.includes('event_type') ? {} : { event_type: 'view' }),
        }),
      ),
    ).toContain(` ${field} `)
  })
})

test('encoding an event changes neither the value that was sent nor later results', () => {
  const event = {
    site_id: 'shop',
    event_type: 'view',
    country: 'de',
    timestamp: receivedAt + 0.5,
    properties: { a: { b: 1 } },
  }
  const before = structuredClone(event)
  const first = rowOf(event)
  rowWith({ user_id: 'ada', properties: { c: 1 } })
  expect(event).toStrictEqual(before)
  expect(rowOf(event)).toStrictEqual(first)
})
