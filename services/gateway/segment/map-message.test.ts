import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { encodeEvent } from '@sluice/events/encode-event'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { startCpuStopwatch } from '../../../tests/support/stopwatch.ts'
import { mapMessage, type MessageType } from './map-message.ts'

const receivedAt = Date.UTC(2026, 0, 31, 12)
const common = { messageId: 'm1', timestamp: '2026-01-31T11:59:58.123Z', userId: 'ada', anonymousId: 'a-1' }
const ids = { event_id: 'm1', timestamp: receivedAt - 1_877, user_id: 'ada', anonymous_id: 'a-1', site_id: 'shop' }

/** The row of a message; properties have their types again. */
function rowOf(message: unknown, type?: MessageType): Record<string, unknown> {
  const { event, explain } = mapMessage(message, 'shop', type)
  try {
    const { line } = encodeEvent(event, { receivedAt, environment: 'prod' })
    const {
      environment: _,
      received_at: __,
      properties,
      property_types: types = {},
      ...row
    } = JSON.parse(line) as {
      properties?: Record<string, string>
      property_types?: Record<string, string>
      [name: string]: unknown
    }
    const typed = Object.entries(properties ?? {}).map(([name, text]): [string, unknown] => [
      name,
      types[name] === undefined ? text : JSON.parse(text),
    ])
    return { ...row, ...(typed.length > 0 && { properties: Object.fromEntries(typed) }) }
  } catch (error) {
    throw explain(error as Parameters<typeof explain>[0])
  }
}

describe('a message of each call becomes an event', () => {
  test.each<[name: string, message: object, row: object]>([
    [
      'track: its name and its properties',
      {
        ...common,
        type: 'track',
        event: 'Order Completed',
        properties: { revenue: 12.5, coupon: null, cart: { items: 2 } },
      },
      { ...ids, event_type: 'Order Completed', properties: { revenue: 12.5, 'cart.items': 2 } },
    ],
    [
      'track: the URL of a product is no URL of a page',
      {
        ...common,
        type: 'track',
        event: 'Product Viewed',
        properties: { url: 'https://shop.example/p/1' },
        context: { page: { url: 'https://shop.example/list', referrer: '' } },
      },
      {
        ...ids,
        event_type: 'Product Viewed',
        url: 'https://shop.example/list',
        properties: { url: 'https://shop.example/p/1' },
      },
    ],
    [
      'page, as analytics.js sends it: what the context repeats is kept once',
      {
        ...common,
        type: 'page',
        name: 'Home',
        category: 'Docs',
        properties: {
          name: 'Home',
          category: 'Docs',
          path: '/a',
          referrer: 'https://search.example/',
          search: '?q=1',
          title: 'A',
          url: 'https://shop.example/a?q=1',
        },
        context: {
          page: {
            path: '/a',
            referrer: 'https://search.example/',
            search: '?q=1',
            title: 'A',
            url: 'https://shop.example/a?q=1',
          },
          userAgent: 'Mozilla/5.0',
          locale: 'de',
          library: { name: 'analytics.js', version: 'npm:next-1.84.3' },
        },
      },
      {
        ...ids,
        event_type: 'page_view',
        url: 'https://shop.example/a?q=1',
        referrer: 'https://search.example/',
        properties: {
          name: 'Home',
          category: 'Docs',
          path: '/a',
          search: '?q=1',
          title: 'A',
          'context.userAgent': 'Mozilla/5.0',
          'context.locale': 'de',
          'context.library.name': 'analytics.js',
          'context.library.version': 'npm:next-1.84.3',
        },
      },
    ],
    [
      'page: without properties the context names the page, and what differs is kept twice',
      {
        type: 'page',
        properties: { title: 'Mine' },
        context: { page: { url: 'https://a.example/', title: 'Theirs', path: '/' } },
      },
      {
        site_id: 'shop',
        event_type: 'page_view',
        url: 'https://a.example/',
        properties: { title: 'Mine', 'context.page.title': 'Theirs', 'context.page.path': '/' },
      },
    ],
    [
      'screen',
      {
        ...common,
        type: 'screen',
        name: 'Cart',
        properties: { variation: 'b' },
        context: { device: { type: 'ios' }, ip: '203.0.113.9' },
      },
      { ...ids, event_type: 'screen_view', properties: { variation: 'b', name: 'Cart', 'context.device.type': 'ios' } },
    ],
    [
      'identify: its traits',
      { ...common, type: 'identify', traits: { email: 'ada@example.com', address: { city: 'London' } } },
      { ...ids, event_type: 'identify', properties: { email: 'ada@example.com', 'address.city': 'London' } },
    ],
    [
      'group: its id and its traits',
      { ...common, type: 'group', groupId: 'g1', traits: { name: 'Initech', seats: 10 } },
      { ...ids, event_type: 'group', properties: { groupId: 'g1', name: 'Initech', seats: 10 } },
    ],
    [
      'alias: the id before as a property',
      { ...common, type: 'alias', previousId: 'a-0' },
      { ...ids, event_type: 'alias', properties: { previousId: 'a-0' } },
    ],
    [
      'a campaign becomes utm_ properties, unless a property has the name',
      {
        ...common,
        type: 'track',
        event: 'x',
        properties: { utm_source: 'mine' },
        context: { campaign: { source: 's', medium: 'm', name: 'n', term: 't', content: 'c', id: '7' } },
      },
      {
        ...ids,
        event_type: 'x',
        properties: {
          utm_source: 'mine',
          utm_medium: 'm',
          utm_campaign: 'n',
          utm_term: 't',
          utm_content: 'c',
          'context.campaign.source': 's',
          'context.campaign.id': '7',
        },
      },
    ],
    [
      'the session of the context, or of the plug-in for Amplitude; -1 is none',
      {
        ...common,
        type: 'track',
        event: 'x',
        context: { sessionId: 1795419743042 },
        integrations: { 'Actions Amplitude': { session_id: 5 } },
      },
      { ...ids, event_type: 'x', session_id: '1795419743042' },
    ],
    [
      'the session of the plug-in for Amplitude',
      {
        ...common,
        type: 'track',
        event: 'x',
        integrations: { All: true, 'Actions Amplitude': { session_id: 1795419743042 } },
      },
      { ...ids, event_type: 'x', session_id: '1795419743042' },
    ],
    [
      '-1 is no session of Amplitude',
      { ...common, type: 'track', event: 'x', integrations: { 'Actions Amplitude': { session_id: -1 } } },
      { ...ids, event_type: 'x' },
    ],
    [
      'what is about sending is not stored',
      {
        ...common,
        type: 'track',
        event: 'x',
        writeKey: 'secret',
        sentAt: '2026-01-31T12:00:00.000Z',
        integrations: { All: true },
        _metadata: { retryCount: 3 },
      },
      { ...ids, event_type: 'x' },
    ],
    [
      'other fields become properties, also such as an event knows',
      {
        ...common,
        type: 'track',
        event: 'x',
        channel: 'server',
        site_id: 'other',
        country: 'Germany',
        nested: { a: [1] },
      },
      {
        ...ids,
        event_type: 'x',
        properties: { channel: 'server', site_id: 'other', country: 'Germany', 'nested.a': [1] },
      },
    ],
    [
      'a field that a property hides keeps its value under another name',
      {
        ...common,
        type: 'page',
        name: 'Home',
        properties: { name: 'Start', context: { page: 1 } },
        context: { page: { path: '/' } },
      },
      {
        ...ids,
        event_type: 'page_view',
        properties: { name: 'Start', 'context.page': 1, '_message.name': 'Home', '_message.context.page.path': '/' },
      },
    ],
    [
      'also when a property is called _message',
      { ...common, type: 'page', name: 'Home', properties: { name: 'Start', _message: 'x' } },
      {
        ...ids,
        event_type: 'page_view',
        properties: { name: 'Start', _message: 'x', '__message.name': 'Home' },
      },
    ],
    [
      'timestamp before originalTimestamp, which is kept',
      { ...common, type: 'alias', originalTimestamp: '2026-01-31T10:00:00Z' },
      { ...ids, event_type: 'alias', properties: { originalTimestamp: '2026-01-31T10:00:00Z' } },
    ],
    [
      'originalTimestamp of older clients',
      { ...common, timestamp: undefined, type: 'alias', originalTimestamp: '2026-01-31T11:59:58.123Z' },
      { ...ids, event_type: 'alias' },
    ],
    [
      'numbers as ids',
      { ...common, type: 'alias', userId: 7, anonymousId: 0 },
      { ...ids, event_type: 'alias', user_id: '7', anonymous_id: '0' },
    ],
  ])('%s', (_name, message, row) => {
    const { event_id, timestamp, ...found } = rowOf(message)
    const isDated = 'timestamp' in row
    expect(isDated ? { event_id, timestamp, ...found } : found).toStrictEqual(row)
  })

  test('identify, as analytics-android sends it: traits that the context repeats are kept once', () => {
    const traits = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`trait${n}`, n % 2 ? n : { list: [n] }]))
    const context = { traits: { ...traits, anonymousId: 'a-1', trait1: 'former' } }
    const row = rowOf({ ...common, type: 'identify', traits, context })
    expect(row).toMatchObject({ event_type: 'identify', user_id: 'ada' })
    expect(Object.keys(row.properties as object)).toHaveLength(62)
    expect(row.properties).toMatchObject({
      'trait0.list': [0],
      trait1: 1,
      'context.traits.trait1': 'former',
      'context.traits.anonymousId': 'a-1',
    })
    const grouped = rowOf({ ...common, type: 'group', traits: { plan: 'a' }, context: { traits: { plan: 'a' } } })
    expect(grouped.properties).toStrictEqual({ plan: 'a', 'context.traits.plan': 'a' })
    const deep = { a: JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`) as unknown }
    expect(() => rowOf({ ...common, type: 'identify', traits: deep, context: { traits: deep } })).toThrow(
      'is nested deeper than 32 levels',
    )
  })

  test('a message with an integer beyond 2^53 keeps its digits, as id and as property', () => {
    const message = parseExactly(
      '{"type":"track","event":"x","userId":9007199254740993,"properties":{"n":9007199254740993}}',
    )
    const { event } = mapMessage(message, 'shop')
    const { line } = encodeEvent(event, { receivedAt, environment: 'prod' })
    expect(line).toContain('"user_id":"9007199254740993"')
    expect(line).toContain('"properties":{"n":"9007199254740993"}')
  })

  test('a messageId that is too long for an event_id is hashed, and kept as a property', () => {
    // As analytics-node made them until version 6.
    const messageId = `node-${'0'.repeat(32)}-4f1b6d3e-0d4f-4a8e-9f3a-1f2e3d4c5b6a`
    expect(rowOf({ ...common, type: 'alias', messageId })).toStrictEqual({
      ...ids,
      event_id: createHash('sha256').update(messageId).digest('hex'),
      event_type: 'alias',
      properties: { messageId },
    })
  })

  test('the path names the call of a message without a type', () => {
    expect(rowOf({ ...common }, 'identify')).toStrictEqual({ ...ids, event_type: 'identify' })
  })
})

describe('a message is refused in its own words when', () => {
  test.each<[name: string, message: unknown, error: string, type?: MessageType]>([
    ['it is no object', ['track'], 'Invalid format: a message must be a JSON object'],
    ['its type is missing in a batch', { event: 'x' }, 'Missing required field: type'],
    [
      'its type is unknown',
      { type: 'delete' },
      'Invalid field: type must be one of: track, page, screen, identify, group, alias',
    ],
    ['its type is not that of the path', { type: 'page' }, 'Invalid field: type must be track at this path', 'track'],
    ['a track has no name', { type: 'track', event: '' }, 'Missing required field: event'],
    [
      'the name is too long',
      { type: 'track', event: 'x'.repeat(65) },
      'Invalid field: event exceeds maximum length of 64',
    ],
    ['the name is no text', { type: 'track', event: {} }, 'Invalid field: event must be a string'],
    ['an id is no text', { type: 'alias', userId: { id: 1 } }, 'Invalid field: userId must be a string'],
    ['an id has lost digits', { type: 'alias', userId: 2 ** 53 }, 'Invalid field: userId must be a string'],
    [
      'an id is too long',
      { type: 'alias', userId: 'x'.repeat(65) },
      'Invalid field: userId exceeds maximum length of 64',
    ],
    ['an id holds NUL', { type: 'alias', messageId: '\0' }, 'Invalid field: messageId must not contain NUL characters'],
    ['properties are a list', { type: 'page', properties: [] }, 'Invalid field: properties must be an object'],
    ['traits are a text', { type: 'identify', traits: 'x' }, 'Invalid field: traits must be an object'],
    ['the context is a number', { type: 'alias', context: 1 }, 'Invalid field: context must be an object'],
    [
      'the time can’t be read',
      { type: 'alias', timestamp: 'yesterday' },
      'Invalid field: timestamp must be an ISO 8601 date, e.g. 2026-01-31T12:00:00.000Z',
    ],
    [
      'the time is seconds',
      { type: 'alias', timestamp: 1795419743 },
      'Invalid field: timestamp must be Unix time in milliseconds, not before 1971',
    ],
    [
      'the time of an older client is seconds',
      { type: 'alias', originalTimestamp: 1795419743 },
      'Invalid field: originalTimestamp must be Unix time in milliseconds, not before 1971',
    ],
    [
      'the time is in the future',
      { type: 'alias', timestamp: '2026-02-02T00:00:00Z' },
      'Invalid field: timestamp must not be more than 24 hours in the future',
    ],
    [
      'a trait is too long',
      { type: 'identify', traits: { bio: 'x'.repeat(2_049) } },
      'Invalid field: traits.bio exceeds maximum length of 2048',
    ],
    [
      'the URL is too long',
      { type: 'page', properties: { url: 'x'.repeat(2_049) } },
      'Invalid field: properties.url exceeds maximum length of 2048',
    ],
    [
      'the URL of the context is too long',
      { type: 'alias', context: { page: { url: 'x'.repeat(2_049) } } },
      'Invalid field: context.page.url exceeds maximum length of 2048',
    ],
    [
      'a campaign is too long',
      { type: 'alias', context: { campaign: { name: 'x'.repeat(2_049) } } },
      'Invalid field: context.campaign.name exceeds maximum length of 2048',
    ],
    [
      'a member of the context is too long',
      { type: 'alias', context: { os: { name: 'x'.repeat(2_049) } } },
      'Invalid field: context.os.name exceeds maximum length of 2048',
    ],
    [
      'a field is too long whose name a property has',
      { type: 'page', name: 'x'.repeat(2_049), properties: { name: 'Start' } },
      'Invalid field: name exceeds maximum length of 2048',
    ],
    [
      'a member of the context is too long, and a property is called context',
      { type: 'page', context: { os: { name: 'x'.repeat(2_049) } }, properties: { context: 'web' } },
      'Invalid field: context.os.name exceeds maximum length of 2048',
    ],
    [
      'a member of a field is too long that is named as a field of events',
      { type: 'track', event: 'x', url: { path: 'x'.repeat(2_049) } },
      'Invalid field: url.path exceeds maximum length of 2048',
    ],
    [
      'the session is too long',
      { type: 'alias', context: { sessionId: 'x'.repeat(65) } },
      'Invalid field: context.sessionId exceeds maximum length of 64',
    ],
    [
      'it has too many properties',
      { type: 'identify', traits: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [n, n])) },
      'Invalid field: properties must not have more than 100 keys after flattening',
    ],
    [
      'it has too many fields',
      { type: 'alias', ...Object.fromEntries(Array.from({ length: 101 }, (_, n) => [n, n])) },
      'Invalid field: message must not have more than 100 fields',
    ],
  ])('%s', (...[, message, error, type]) => expect(() => rowOf(message, type)).toThrow(error))
})

describe('names that are chosen to be compared with one another take no seconds', () => {
  const numbered = (count: number, nameOf: (n: number) => string) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [nameOf(n), n]))
  const dots = '.'.repeat(400_000)

  test.each([
    [
      'tens of thousands of them, with all prefixes',
      Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`f${n}`, 'x'])),
      { ...numbered(60_000, (n) => `x${n.toString(36)}`), ...numbered(90, (n) => `f${n}`) },
    ],
    ['of many dots', { [`${dots}x`]: 1 }, { [`${dots}y`]: 1 }],
  ])('%s', (_name, fields, properties) => {
    const prefixes = numbered(1_000, (n) => `${'_'.repeat(n + 1)}message`)
    const cpuMs = startCpuStopwatch()
    expect(() => rowOf({ type: 'track', event: 'x', ...fields, properties: { ...properties, ...prefixes } })).toThrow(
      'has a name longer than 128 characters',
    )
    expect(cpuMs()).toBeLessThan(5_000)
  })
})
