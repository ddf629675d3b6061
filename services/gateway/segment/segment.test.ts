import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { connectRaw, request } from '../../../tests/support/test-service.ts'

let gateway: TestGateway
let sites = 0

beforeAll(async () => {
  gateway = await startGateway()
})

afterAll(async () => {
  await gateway.stop()
})

/** A site of its own, and a key that is bound to it. */
async function newSite(parts: Parameters<TestGateway['createKey']>[0] = {}): Promise<{ siteId: string; key: string }> {
  const siteId = `segment-${sites++}`
  return { siteId, key: await gateway.createKey({ siteIds: [siteId], ...parts }) }
}

const basic = (key: string, password = '') => ({
  Authorization: `Basic ${Buffer.from(`${key}:${password}`).toString('base64')}`,
})

function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  return request(`${gateway.service.url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: bytes,
  })
}

const track = { type: 'track', event: 'Signed Up', messageId: 'm1', timestamp: new Date().toISOString() }

describe('the paths of Segment', () => {
  test('take each call under its long and its short name', async () => {
    const { siteId, key } = await newSite()
    const calls = { track: { event: 'x' }, page: {}, screen: {}, identify: {}, group: {}, alias: {} }
    for (const [name, message] of Object.entries(calls)) {
      for (const path of [`/v1/${name}`, `/v1/${name.charAt(0)}`]) {
        const { status, body } = await post(path, { ...message, type: name }, basic(key))
        expect({ path, status, body }).toStrictEqual({
          path,
          status: 200,
          body: { success: true, timestamp: expect.any(Number) },
        })
      }
    }
    for (const path of ['/v1/batch', '/v1/b', '/v1/import']) {
      const { status, body } = await post(path, { batch: [track] }, basic(key))
      expect(status).toBe(200)
      expect(body).toStrictEqual({
        success: true,
        timestamp: expect.any(Number),
        data: { accepted: 1, rejected: 0, errors: [] },
      })
    }
    const types = (await gateway.stored(siteId, 15)).map(({ row }) => row.event_type).sort()
    expect(types).toStrictEqual([
      'Signed Up',
      ...['Signed Up', 'alias', 'group', 'identify', 'page_view', 'screen_view', 'x'].flatMap((each) => [each, each]),
    ])
  })

  test('store the message of a copy under the same event_id and timestamp, whatever sentAt says', async () => {
    const { siteId, key } = await newSite()
    for (const sentAt of ['2026-01-01T00:00:00Z', '2030-01-01T00:00:00Z']) {
      await post('/v1/track', { ...track, sentAt }, basic(key))
    }
    const rows = (await gateway.stored(siteId, 2)).map(({ row: { received_at: _, ...row } }) => row)
    expect(rows[0]).toStrictEqual(rows[1])
    expect(rows[0]).toMatchObject({ event_id: 'm1', timestamp: Date.parse(track.timestamp) })
  })

  test('take text/plain and gzip, with Content-Encoding or told by the first bytes of text/plain', async () => {
    const { siteId, key } = await newSite()
    const body = JSON.stringify({ batch: [track], writeKey: key })
    const plain = { 'Content-Type': 'text/plain;charset=UTF-8' }
    const json = { 'Content-Type': 'application/json; charset=utf-8' }
    const packed = gzipSync(body)
    const sent = [
      post('/v1/b', body, plain),
      post('/v1/b', packed, plain),
      post('/v1/b', packed, { ...json, 'Content-Encoding': 'gzip' }),
      post('/v1/batch', packed, { ...json, ...basic(key), 'Content-Encoding': 'gzip' }),
    ]
    for (const { status } of await Promise.all(sent)) expect(status).toBe(200)
    expect(await gateway.stored(siteId, 4)).toHaveLength(4)
  })

  test('read a body without Content-Type as JSON, as Segment’s client for C# sends it', async () => {
    const { siteId, key } = await newSite()
    const body = gzipSync(JSON.stringify({ batch: [track], writeKey: key }))
    const send = (path: string, headers: Record<string, string>) =>
      request(`${gateway.service.url}${path}`, { method: 'POST', headers, body })
    const gzip = { 'Content-Encoding': 'gzip' }
    const answers = [
      await send('/v1/b', gzip),
      await send('/v1/b', { ...gzip, ...basic(key) }),
      // An empty header is a value.
      await send('/v1/b', { ...gzip, 'Content-Type': '' }),
      await send('/collect', { ...gzip, Authorization: `Bearer ${key}` }),
    ]
    expect(answers.map(({ status }) => status)).toStrictEqual([200, 200, 415, 415])
    expect(await gateway.stored(siteId, 2)).toHaveLength(2)
  })

  test('keep the digits of numbers that a double can’t hold, alone and in a batch', async () => {
    const { siteId, key } = await newSite()
    const properties = '{"n":9007199254740995,"price":0.1234567890123456789,"small":[1.0000000000000000001e-40]}'
    const message = `{"type":"track","event":"x","userId":9007199254740993,"timestamp":1790000000000.00000000001,"properties":${properties}}`
    const asText = message.replace('9007199254740993', '"9007199254740993"')
    for (const each of [message, asText]) {
      await post('/v1/track', each, basic(key))
      await post('/v1/batch', `{"batch":[${each}]}`, basic(key))
    }
    const rows = await gateway.stored(siteId, 4)
    expect(rows).toHaveLength(4)
    for (const { row } of rows) {
      expect(row).toMatchObject({
        user_id: '9007199254740993',
        timestamp: 1_790_000_000_000,
        properties: { n: '9007199254740995', price: '0.1234567890123456789', small: '[1.0000000000000000001e-40]' },
      })
    }
    for (const id of ['1e300', '3.00000000000000000001', '9007199254740993e0']) {
      const { body } = await post('/v1/track', message.replace('9007199254740993', id), basic(key))
      expect(body.error).toBe('Invalid field: userId must be a string')
    }
  })

  test('keep those digits beside a message that is nested too deeply, and in the context of a batch', async () => {
    const { siteId, key } = await newSite()
    const good =
      '{"type":"track","event":"x","userId":"u","properties":{"n":9007199254740995,"price":1.0000000000000000001e-40}}'
    const deep = `{"type":"track","event":"x","userId":"u","properties":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`
    const context = '{"app":{"build":9007199254740997},"ratio":0.1234567890123456789,"timezone":"Europe/Rome"}'
    await post('/v1/batch', `{"batch":[${deep},${good}],"context":${context}}`, basic(key))
    const [stored] = await gateway.stored(siteId, 1)
    expect(stored?.row.properties).toMatchObject({ n: '9007199254740995', price: '1.0000000000000000001e-40' })
    expect(stored?.row.properties?.['context.ratio']).toBe('0.1234567890123456789')
    expect(JSON.stringify(stored?.row)).toContain('9007199254740997')
  })
})

describe('the key of a message', () => {
  test('is the user of Basic, a Bearer, api_key of the query, or writeKey of the body or of its messages', async () => {
    const { siteId, key } = await newSite()
    const answers = [
      post('/v1/track', track, basic(key)),
      post('/v1/track', track, { Authorization: `Bearer ${key}` }),
      post(`/v1/track?api_key=${key}`, track),
      post('/v1/track', { ...track, writeKey: key }),
      post('/v1/batch', { batch: [track], writeKey: key }),
      post('/v1/batch', { batch: [{ ...track, writeKey: key }] }),
      // A header wins over the body.
      post('/v1/track', { ...track, writeKey: generateKey('prod') }, basic(key)),
    ]
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
    for (const { row } of await gateway.stored(siteId, 7)) expect(JSON.stringify(row)).not.toContain(key)
  })

  test('is 401 when it is missing, unknown or has a password', async () => {
    const { key } = await newSite()
    const answers = [
      post('/v1/track', track),
      post('/v1/track', track, basic('')),
      post('/v1/track', track, { Authorization: 'Basic' }),
      post('/v1/track', track, { Authorization: 'Basic %%%' }),
      post('/v1/track', track, basic(key, 'password')),
      post('/v1/track', track, basic(key, ':')),
      post('/v1/track', track, basic(`${key}\0`)),
      // An empty key counts as a key, so the one in the body is ignored.
      post('/v1/track?api_key=', { ...track, writeKey: key }),
      post('/v1/track', track, basic(generateKey('prod'))),
      post('/v1/track', { ...track, writeKey: generateKey('prod') }),
      post('/v1/track', { ...track, writeKey: 'a key of Segment' }),
      post('/v1/track', 'no JSON'),
      // An invalid header wins over a valid key in the body.
      post('/v1/track', { ...track, writeKey: key }, basic(generateKey('prod'))),
    ]
    for (const { status, body } of await Promise.all(answers)) {
      expect({ status, error: body.error }).toStrictEqual({ status: 401, error: 'Invalid API key' })
    }
  })

  test('is that of the first of several headers', async () => {
    const { key } = await newSite()
    const body = JSON.stringify(track)
    for (const [keys, status] of [
      [[key, generateKey('prod')], 200],
      [[generateKey('prod'), key], 401],
    ] as const) {
      const connection = await connectRaw(gateway.service.port)
      const headers = keys.map((each) => `Authorization: ${basic(each).Authorization}`)
      const type = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close`
      connection.send(`POST /v1/track HTTP/1.1\r\nHost: a\r\n${type}\r\n${headers.join('\r\n')}\r\n\r\n${body}`)
      expect(await connection.closed).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    }
  })

  test('is 400 when messages of one body have different ones', async () => {
    const { key } = await newSite()
    const other = await newSite()
    const batch = [
      { ...track, writeKey: key },
      { ...track, writeKey: other.key },
    ]
    const { status, body } = await post('/v1/batch', { batch })
    expect({ status, error: body.error }).toStrictEqual({
      status: 400,
      error: 'Invalid field: writeKey must be the same in the whole body',
    })
  })

  test('is read by Basic at these paths alone', async () => {
    const { siteId, key } = await newSite()
    const { status } = await post('/collect', { site_id: siteId, event_type: 'x' }, basic(key))
    expect(status).toBe(401)
  })

  test('must be bound to exactly one site, and hold events:write', async () => {
    const keys = [
      gateway.keys.prod,
      await gateway.createKey({ siteIds: ['segment-a', 'segment-b'] }),
      await gateway.createKey({ siteIds: [] }),
    ]
    for (const key of keys) {
      for (const [path, message] of [
        ['/v1/track', track],
        ['/v1/batch', { batch: [track] }],
      ] as const) {
        const { status, body } = await post(path, message, basic(key))
        expect({ status, error: body.error }).toStrictEqual({
          status: 403,
          error:
            'Messages of Segment’s clients contain no site: use a write key that is bound to exactly one site (site_ids of the key)',
        })
      }
    }
    const { key } = await newSite({ scopes: ['stats:read'] })
    const { status, body } = await post('/v1/track', { ...track, writeKey: key })
    expect({ status, error: body.error }).toStrictEqual({
      status: 403,
      error: 'Insufficient scope: requires events:write',
    })
  })

  test('decides the environment', async () => {
    const { siteId, key } = await newSite({ environment: 'dev' })
    await post('/v1/track', { ...track, writeKey: key })
    expect((await gateway.stored(siteId, 1))[0]?.row.environment).toBe('dev')
  })

  test('of web pages takes messages of its origins alone, in whichever way it is sent', async () => {
    const { key } = await newSite({ allowedOrigins: ['https://shop.example'] })
    const from = (origin: string) => [
      post('/v1/t', track, { Origin: origin, ...basic(key) }),
      post('/v1/t', { ...track, writeKey: key }, { Origin: origin, 'Content-Type': 'text/plain' }),
    ]
    for (const { status } of await Promise.all(from('https://shop.example'))) expect(status).toBe(200)
    for (const { status, body } of await Promise.all(from('https://evil.example'))) {
      expect({ status, error: body.error }).toStrictEqual({ status: 403, error: 'Key is not allowed for this origin' })
    }
  })
})

describe('pages of other origins', () => {
  test('may send what analytics.js and the client for Flutter do, and read the answer', async () => {
    const response = await fetch(`${gateway.service.url}/v1/t`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://shop.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'authorization,content-type,user-agent,x-retry-count',
      },
    })
    expect(response.status).toBe(204)
    expect(response.headers.get('Access-Control-Allow-Headers')?.toLowerCase().split(', ')).toStrictEqual(
      expect.arrayContaining(['authorization', 'content-type', 'user-agent', 'x-retry-count']),
    )
    const { headers } = await post('/v1/t', track, { Origin: 'https://shop.example' })
    expect(headers.get('Access-Control-Allow-Origin')).toBe('*')
  })
})

describe('limits', () => {
  test('have headers in seconds from now, and a batch costs what it holds', async () => {
    const { key } = await newSite({ rateLimits: { events_per_minute: 5 } })
    const answers = [
      await post('/v1/batch', { batch: [track, {}, track] }, basic(key)),
      await post('/v1/batch', { batch: [track, track, track], writeKey: key }),
      await post('/v1/track', track, basic(key)),
      await post('/v1/track', { ...track, writeKey: key }),
      await post('/v1/track', track, basic(key)),
    ]
    expect(answers.map(({ status }) => status)).toStrictEqual([200, 429, 200, 200, 429])
    for (const { headers } of answers) {
      expect(headers.get('X-RateLimit-Limit')).toBe('5')
      const reset = Number(headers.get('X-RateLimit-Reset'))
      expect(reset).toBeGreaterThanOrEqual(0)
      expect(reset).toBeLessThanOrEqual(60)
    }
    const retryAfter = Number(answers[4]?.headers.get('Retry-After'))
    expect(retryAfter).toBeGreaterThan(0)
    expect(retryAfter).toBeLessThanOrEqual(60)
    const other = await newSite({ rateLimits: { events_per_minute: 5 } })
    const batch = Array.from({ length: 6 }, () => track)
    expect((await post('/v1/batch', { batch }, basic(other.key))).status).toBe(413)
  })

  test('of size: a message of 32 KiB, a body of 64 KiB, a batch of 1 MiB', async () => {
    const { key } = await newSite()
    const texts = (bytes: number) =>
      Object.fromEntries(Array.from({ length: Math.ceil(bytes / 2_000) }, (_, n) => [n, 'x'.repeat(1_990)]))
    const large = { ...track, properties: texts(33_000) }
    const answers = [
      // What is not stored does not count.
      await post('/v1/track', { ...track, integrations: texts(40_000) }, basic(key)),
      await post('/v1/track', large, basic(key)),
      await post('/v1/track', { ...track, integrations: texts(70_000) }, basic(key)),
      await post('/v1/batch', { batch: [{ ...track, integrations: texts(1_100_000) }] }, basic(key)),
      await post('/v1/batch', { batch: [{ ...track, integrations: texts(1_100_000) }], writeKey: key }),
    ]
    expect(answers.map(({ status, body }) => [status, body.error])).toStrictEqual([
      [200, undefined],
      [413, 'Event is larger than 32768 bytes'],
      [413, 'Request body is larger than 65536 bytes'],
      [413, 'Request body is larger than 1048576 bytes'],
      [413, 'Request body is larger than 1048576 bytes'],
    ])
    const { status, body } = await post('/v1/batch', { batch: [large, track] }, basic(key))
    expect({ status, data: body.data }).toStrictEqual({
      status: 200,
      data: {
        accepted: 1,
        rejected: 1,
        errors: [{ index: 0, event_id: 'm1', error: 'Event is larger than 32768 bytes' }],
      },
    })
  })
})

describe('what is refused', () => {
  async function rejected(): Promise<number> {
    const { values = [] } = (await gateway.metrics.getSingleMetric('sluice_events_rejected_total')?.get()) ?? {}
    return values.reduce((sum, { value }) => sum + value, 0)
  }

  test('in a batch is told by its place, counted and logged, while the rest is stored', async () => {
    const { siteId, key } = await newSite()
    const before = await rejected()
    const batch = [
      { ...track, messageId: 'good' },
      { ...track, messageId: 'bad-date', timestamp: 'yesterday' },
      { ...track, messageId: 'no-name', event: '' },
      { type: 'page', messageId: 'long-url', properties: { url: 'x'.repeat(2_049) } },
      'text',
    ]
    const { status, body } = await post('/v1/batch', { batch, context: { app: 'a' } }, basic(key))
    expect(status).toBe(200)
    expect(body.success).toBe(true)
    expect(body.data).toStrictEqual({
      accepted: 1,
      rejected: 4,
      errors: [
        {
          index: 1,
          event_id: 'bad-date',
          error: 'Invalid field: timestamp must be an ISO 8601 date, e.g. 2026-01-31T12:00:00.000Z',
        },
        { index: 2, event_id: 'no-name', error: 'Missing required field: event' },
        { index: 3, event_id: 'long-url', error: 'Invalid field: properties.url exceeds maximum length of 2048' },
        { index: 4, error: 'Invalid format: a message must be a JSON object' },
      ],
    })
    const [stored] = await gateway.stored(siteId, 1)
    expect(stored?.row).toMatchObject({ event_id: 'good', properties: { 'context.app': 'a' } })
    expect((await rejected()) - before).toBe(4)
    const line = () =>
      gateway.service.lines().find(({ route, rejected: count }) => route === '/v1/batch' && count === 4)
    await waitUntil(() => line() !== undefined, 'the refusal is in the log')
    expect(line()).toMatchObject({
      level: 'info',
      status: 200,
      events: 1,
      error: 'Invalid field: timestamp must be an ISO 8601 date, e.g. 2026-01-31T12:00:00.000Z',
    })
  })

  test('has a code and a message, which Segment’s client for Python reads, at these paths alone', async () => {
    const { siteId, key } = await newSite()
    const error = { success: false, timestamp: expect.any(Number) }
    const batch = 'Invalid field: batch must hold at least 1 message'
    const missing = 'Missing required field: event_type'
    const answers = [
      await post('/v1/batch', { batch: [] }, basic(key)),
      await post('/v1/batch', { batch: [track] }, basic(generateKey('prod'))),
      await post('/collect', { site_id: siteId }, { Authorization: `Bearer ${key}` }),
    ]
    expect(answers.map(({ status, body }) => [status, body])).toStrictEqual([
      [400, { ...error, error: batch, code: 'invalid_field', message: batch }],
      [401, { ...error, error: 'Invalid API key', code: 'unauthenticated', message: 'Invalid API key' }],
      [400, { ...error, error: missing }],
    ])
  })

  test('is 400 for a single message, and for a batch without a good one', async () => {
    const { key } = await newSite()
    const before = await rejected()
    const single = await post('/v1/track', { ...track, userId: 'x'.repeat(65) }, basic(key))
    expect([single.status, single.body.error]).toStrictEqual([
      400,
      'Invalid field: userId exceeds maximum length of 64',
    ])
    const batch = await post('/v1/batch', { batch: [{}] }, basic(key))
    expect([batch.status, batch.body.error, batch.body.data]).toStrictEqual([
      400,
      'Invalid field: batch holds no valid message, see data.errors',
      { accepted: 0, rejected: 1, errors: [{ index: 0, error: 'Missing required field: type' }] },
    ])
    expect((await rejected()) - before).toBe(2)
  })

  test.each([
    ['no list', {}, 'Missing required field: batch'],
    ['another value than a list', { batch: {} }, 'Invalid field: batch must be a list'],
    ['an empty list', { batch: [] }, 'Invalid field: batch must hold at least 1 message'],
    [
      'too many messages',
      { batch: Array.from({ length: 2_001 }, () => 0) },
      'Invalid field: batch must contain at most 2000 messages',
    ],
    ['a context that is no object', { batch: [track], context: [] }, 'Invalid field: context must be an object'],
    [
      'a context of 20,000 levels',
      `{"batch":[{"type":"group","groupId":"g"}],"context":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`,
      'Invalid field: context is nested deeper than 32 levels',
    ],
    ['a list alone', [track], 'Invalid format: body must be a JSON object with a list "batch"'],
    ['no JSON', '{', 'Invalid format: body is not valid JSON'],
  ])('is a batch with %s', async (_name, sent, error) => {
    const { key } = await newSite()
    const { status, body } = await post('/v1/batch', sent, basic(key))
    expect([status, body.error]).toStrictEqual([400, error])
  })

  test('is a message whose context is a number, also one of more digits than a double holds', async () => {
    const { key } = await newSite()
    const number = '12345678901234567890'
    for (const messageId of ['"m"', number]) {
      const others = JSON.stringify({ ...track, messageId: undefined })
      const message = others.replace('{', `{"messageId":${messageId},"context":${number},`)
      const sent = `{"context":{"locale":"de"},"batch":[${message}]}`
      const { status, body } = await post('/v1/batch', sent, { 'Content-Type': 'application/json', ...basic(key) })
      expect(status).toBe(400)
      expect(JSON.stringify(body)).toContain('Invalid field: context must be an object')
    }
  })

  test('is a batch that names its list twice, of which only the last one would be stored', async () => {
    const { siteId, key } = await newSite()
    const [first, last] = [[{ ...track, messageId: 'first' }], [{ ...track, messageId: 'last' }]]
    const body = `{"batch":${JSON.stringify(first)},"context":{"app":{"a":1}},"batch":${JSON.stringify(last)}}`
    const refused = await post('/v1/batch', body, { 'Content-Type': 'application/json', ...basic(key) })
    expect([refused.status, refused.body.error]).toStrictEqual([400, 'Invalid format: body names "batch" twice'])
    const batch = [{ ...track, messageId: 'named', properties: { batch: [{ a: 1 }], b: 'batch' } }]
    // Another member that stands there twice loses no message.
    const repeated = `{"batch":${JSON.stringify(batch)},"context":{"app":{"a":1},"app":{"a":2}}}`
    const { status } = await post('/v1/batch', repeated, basic(key))
    expect(status).toBe(200)
    expect(await gateway.stored(siteId, 1)).toHaveLength(1)
  })

  test('is a batch that is too large with its context in each message', async () => {
    const { key } = await newSite()
    const batch = Array.from({ length: 2_000 }, () => ({ type: 'group', groupId: 'g' }))
    const context = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`member${n}`, null]))
    const { status, body } = await post('/v1/batch', { batch, context }, basic(key))
    expect([status, body.error]).toStrictEqual([
      413,
      'The context, once for each message, is larger than 10485760 bytes',
    ])
    expect((await post('/v1/batch', { batch: batch.slice(0, 500), context }, basic(key))).status).toBe(200)
  })

  test('of another media type is 415', async () => {
    const { key } = await newSite()
    for (const credential of [basic(key), {}]) {
      const { status } = await post('/v1/t', 'x=y', {
        'Content-Type': 'application/x-www-form-urlencoded',
        ...credential,
      })
      expect(status).toBe(415)
    }
  })
})
