import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { EventLog } from '@sluice/event-log/log'
import { unavailable } from '@sluice/runtime/errors'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'

/** Runs before each publish to the log; tests replace it. */
let beforePublish: () => Promise<void> = () => Promise.resolve()
const wrapLog = (log: EventLog): EventLog => ({
  ...log,
  publish: async (blocks, options) => {
    await beforePublish()
    await log.publish(blocks, options)
  },
})

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({ wrapLog })
})

afterAll(async () => {
  await gateway.stop()
})

const accepted = { success: true, timestamp: expect.any(Number) }
const refused = (error: string) => ({ success: false, error, timestamp: expect.any(Number) })

describe('202 is the answer to', () => {
  test('an event, which is in the log as it was sent, with its site registered', async () => {
    const before = Date.now()
    const { status, body } = await gateway.collect({
      site_id: 'whole',
      event_type: 'purchase',
      timestamp: 1_767_000_000_000,
      session_id: 's1',
      user_id: 'ada',
      url: 'https://shop.example/?q=ü',
      referrer: 'https://search.example/',
      country: 'de',
      device_type: 'Mobile',
      anonymous_id: 'a1',
      event_id: 'e1',
      plan: 'pro',
      properties: { price: 9.5, gift: false, tags: ['a', 1], nested: { deep: 'x' }, none: null },
    })
    expect(status).toBe(202)
    expect(body).toStrictEqual(accepted)
    const [stored] = await gateway.stored('whole', 1)
    expect(stored?.row).toStrictEqual({
      site_id: 'whole',
      environment: 'prod',
      event_type: 'purchase',
      timestamp: 1_767_000_000_000,
      event_id: 'e1',
      session_id: 's1',
      user_id: 'ada',
      anonymous_id: 'a1',
      url: 'https://shop.example/?q=ü',
      referrer: 'https://search.example/',
      country: 'DE',
      device_type: 'mobile',
      properties: { plan: 'pro', price: '9.5', gift: 'false', tags: '["a",1]', 'nested.deep': 'x' },
      property_types: { price: 'number', gift: 'boolean', tags: 'array' },
      received_at: expect.any(Number),
    })
    expect(stored?.row.received_at).toBeGreaterThanOrEqual(before)
    expect(stored?.row.received_at).toBeLessThanOrEqual(Date.now())
    expect(stored?.headers).toStrictEqual({ v: 1, rows: 1, bytes: expect.any(Number) })
    expect(await gateway.postgres.db.selectFrom('sites').select('site_id').execute()).toContainEqual({
      site_id: 'whole',
    })
  })

  test('an event with any environment, which is stored in the environment of the key', async () => {
    await gateway.collect({ site_id: 'environments', event_type: 'x', user_id: 'p' })
    await gateway.collect({ site_id: 'environments', event_type: 'x', user_id: 'd' }, { key: gateway.keys.dev })
    const rows = (await gateway.stored('environments', 2)).map(({ row }) => [row.user_id, row.environment])
    expect(Object.fromEntries(rows)).toStrictEqual({ p: 'prod', d: 'dev' })
  })

  test('an event without an id, which gets a new UUIDv7 each time', async () => {
    for (let n = 0; n < 3; n++) await gateway.collect({ site_id: 'ids', event_type: 'x' })
    const ids = (await gateway.stored('ids', 3)).map(({ row }) => row.event_id)
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  })

  test('copies of an event, which are in one partition, with undated ones in separate blocks', async () => {
    const event = { site_id: 'copies', event_type: 'x', event_id: 'same' }
    for (let n = 0; n < 4; n++) {
      await gateway.collect({ ...event, timestamp: 1_767_000_000_000 })
      await gateway.collect(event)
    }
    const rows = await gateway.stored('copies', 8)
    expect(new Set(rows.map(({ partition }) => partition)).size).toBe(1)
    for (const { row, headers } of rows) expect(headers.undated).toBe(row.undated === 1 ? true : undefined)
    expect(rows.filter(({ headers }) => headers.undated)).toHaveLength(4)
  })

  test('a body of at most 32 KiB, compressed or not', async () => {
    const body = (length: number) => {
      const head = '{"site_id":"large","event_type":"x","l":["'
      return `${head}${'x'.repeat(length - head.length - 3)}"]}`
    }
    expect(Buffer.byteLength(body(32_768))).toBe(32_768)
    expect((await gateway.collect(body(32_768))).status).toBe(202)
    const headers = { 'Content-Encoding': 'gzip' }
    expect((await gateway.collect(gzipSync(body(32_768)), { headers })).status).toBe(202)
    await gateway.stored('large', 2)
    const tooLarge = refused('Request body is larger than 32768 bytes')
    for (const answer of [
      await gateway.collect(body(32_769)),
      await gateway.collect(gzipSync(body(32_769)), { headers }),
    ]) {
      expect(answer.status).toBe(413)
      expect(answer.body).toStrictEqual(tooLarge)
    }
  })

  test('gzip in text/plain without Content-Encoding, for an event and for a batch, within the same limits', async () => {
    const event = (properties: object) => JSON.stringify({ site_id: 'gzip-beacon', event_type: 'x', properties })
    const headers = { 'Content-Type': 'text/plain;charset=UTF-8' }
    expect((await gateway.collect(gzipSync(event({ way: 'alone' })), { headers })).status).toBe(202)
    const named = { ...headers, 'Content-Encoding': 'gzip' }
    expect((await gateway.collect(gzipSync(event({ way: 'named' })), { headers: named })).status).toBe(202)
    const batch = gzipSync(`{"events":[${event({ way: 'batch' })}]}`)
    expect((await gateway.collectBatch(batch, { headers })).status).toBe(202)
    const rows = await gateway.stored('gzip-beacon', 3)
    expect(
      rows
        .map(({ row }) => row.properties)
        .map((each) => JSON.stringify(each))
        .sort(),
    ).toEqual(['alone', 'batch', 'named'].map((way) => JSON.stringify({ way })))

    const large = gzipSync(event({ text: 'x'.repeat(33_000) }))
    expect(await gateway.collect(large, { headers })).toMatchObject({
      status: 413,
      body: refused('Request body is larger than 32768 bytes'),
    })
    expect(await gateway.collect(gzipSync(event({})).subarray(0, 20), { headers })).toMatchObject({
      status: 400,
      body: refused('Invalid format: body is not valid gzip'),
    })
    expect(await gateway.collect(gzipSync(gzipSync(event({}))), { headers })).toMatchObject({ status: 400 })
    // Only a body of `text/plain` is examined for gzip. A body with the type of JSON must be JSON.
    const json = { 'Content-Type': 'application/json' }
    expect(await gateway.collect(gzipSync(event({})), { headers: json })).toMatchObject({ status: 400 })
  })

  test('JSON as text/plain, as beacons of browsers send it, for an event and for a batch', async () => {
    const event = { site_id: 'beacon', event_type: 'x', user_id: 'ü' }
    for (const type of ['text/plain', 'text/plain;charset=UTF-8', 'Text/Plain; charset="utf-8"']) {
      const headers = { 'Content-Type': type }
      expect((await gateway.collect(event, { headers })).status).toBe(202)
      expect((await gateway.collectBatch({ events: [event] }, { headers })).status).toBe(202)
    }
    for (const { row } of await gateway.stored('beacon', 6)) expect(row.user_id).toBe('ü')

    const latin = { headers: { 'Content-Type': 'text/plain; charset=iso-8859-1' } }
    const plain = { headers: { 'Content-Type': 'text/plain' } }
    for (const send of [gateway.collect, gateway.collectBatch]) {
      const { status, body } = await send(event, latin)
      expect(status).toBe(415)
      expect(body).toStrictEqual(refused('Content-Type charset must be utf-8'))
      expect((await send('site_id=beacon', plain)).body).toStrictEqual(
        refused('Invalid format: body is not valid JSON'),
      )
    }
    // A body of text/plain is JSON: one event on each line has a media type of its own.
    const lines = `${JSON.stringify(event)}\n${JSON.stringify(event)}`
    expect((await gateway.collectBatch(lines, plain)).status).toBe(400)
  })

  test('an event with names like __proto__, which are plain data', async () => {
    const { status } = await gateway.collect(
      '{"site_id":"hostile","event_type":"\\ud83d","user_id":"a\\nb\\u2028","__proto__":{"x":1},"constructor":{"prototype":{"y":2}},"properties":{"__proto__":"p","\\udc00":"\\ud800"}}',
    )
    expect(status).toBe(202)
    const [stored] = await gateway.stored('hostile', 1)
    expect(stored?.row.event_type).toBe('\uFFFD')
    expect(stored?.row.user_id).toBe('a\nb\u2028')
    expect(JSON.stringify(stored?.row.properties)).toBe(
      '{"__proto__.x":"1","constructor.prototype.y":"2","__proto__":"p","\uFFFD":"\uFFFD"}',
    )
    expect({}).not.toHaveProperty('x')
  })

  test('numbers that a double can’t hold, which keep their digits', async () => {
    const properties =
      '{"items":[9007199254740993,3.00000000000000000001],"price":0.1234567890123456789,"small":-1.0000000000000000001e-40,"half":0.50,"sum":0.30000000000000004}'
    const { status } = await gateway.collect(
      `{"site_id":"digits","event_type":"x","order":12345678901234567890,"timestamp":${Date.now()}.12345678901234567890,"properties":${properties}}`,
    )
    expect(status).toBe(202)
    const [stored] = await gateway.stored('digits', 1)
    expect(stored?.row.properties).toEqual({
      order: '12345678901234567890',
      items: '[9007199254740993,3.00000000000000000001]',
      price: '0.1234567890123456789',
      small: '-1.0000000000000000001e-40',
      half: '0.5',
      sum: '0.30000000000000004',
    })
  })

  test.each([
    ['1e999999999', 'Invalid field: properties.n must be a finite number'],
    [`${'9'.repeat(400)}.5`, 'Invalid field: properties.n must be a finite number'],
    [
      `1.0000000000000000001e-40,"a":${'['.repeat(10_000)}${']'.repeat(10_000)}`,
      'Invalid field: properties.a is nested deeper than 32 levels',
    ],
  ])('no number beyond all doubles, and no deep one: %.20s', async (n, error) => {
    const { status, body } = await gateway.collect(`{"site_id":"s","event_type":"x","properties":{"n":${n}}}`)
    expect([status, body.error]).toEqual([400, error])
  })

  test.each(['12345678901234567890', '0.1234567890123456789'])('no event, and no properties, %s', async (number) => {
    expect((await gateway.collect(number)).body.error).toBe('Invalid format: an event must be a JSON object')
    const { body } = await gateway.collect(`{"site_id":"s","event_type":"x","properties":${number}}`)
    expect(body.error).toBe('Invalid field: properties must be an object')
  })
})

test('a body that is not valid UTF-8 is refused', async () => {
  const body = Buffer.concat([
    Buffer.from('{"site_id":"utf8","event_type":"a'),
    Buffer.from([0xff, 0xc3, 0x28]),
    Buffer.from('"}'),
  ])
  const { status, body: answer } = await gateway.collect(body)
  expect(status).toBe(400)
  expect(answer.error).toBe('Invalid format: body is not valid UTF-8')
  expect(await gateway.stored('utf8', 0)).toStrictEqual([])
})

describe('the response', () => {
  test('is not sent before the log has acknowledged the event', async () => {
    const reached = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    beforePublish = async () => {
      reached.resolve(undefined)
      await gate.promise
    }
    let status: number | undefined
    const answer = gateway.collect({ site_id: 'waits', event_type: 'x' }).then((given) => {
      status = given.status
    })
    await reached.promise
    // Another request completes meanwhile, so the first one would have completed too.
    expect((await gateway.collect({ site_id: '' })).status).toBe(400)
    expect((await fetch(`${gateway.service.url}/healthz`)).status).toBe(200)
    expect(status).toBeUndefined()
    beforePublish = () => Promise.resolve()
    gate.resolve(undefined)
    await answer
    expect(status).toBe(202)
    await gateway.stored('waits', 1)
  })

  test('is 503 with Retry-After when the log rejects the event, which can be sent again', async () => {
    beforePublish = () => Promise.reject(unavailable('the log: canary', new Error('disk full')))
    const event = { site_id: 'refused', event_type: 'x', event_id: 'e1', timestamp: 1_767_000_000_000 }
    const { status, headers, body } = await gateway.collect(event)
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('1')
    expect(body).toStrictEqual(refused('Service temporarily unavailable'))
    beforePublish = () => Promise.resolve()
    expect((await gateway.collect(event)).status).toBe(202)
    await gateway.stored('refused', 1)
  })

  test('is 500 without details when the log throws an unexpected error', async () => {
    beforePublish = () => Promise.reject(new RangeError('canary'))
    const { status, body } = await gateway.collect({ site_id: 'broken', event_type: 'x' })
    beforePublish = () => Promise.resolve()
    expect(status).toBe(500)
    expect(body).toStrictEqual(refused('Internal server error'))
  })
})

test('one byte order mark before the event is skipped', async () => {
  const event = JSON.stringify({ site_id: 'marked', event_type: 'x' })
  expect((await gateway.collect(`\uFEFF${event}`)).status).toBe(202)
  await gateway.stored('marked', 1)
  const { status, body } = await gateway.collect(`\uFEFF\uFEFF${event}`)
  expect(status).toBe(400)
  expect(body).toStrictEqual(refused('Invalid format: body is not valid JSON'))
})

describe('400 is the answer to', () => {
  test.each<[string, string]>([
    ['', 'Invalid format: body is empty, a JSON object is expected'],
    [' \n', 'Invalid format: body is empty, a JSON object is expected'],
    ['{', 'Invalid format: body is not valid JSON'],
    ['{"site_id": "s",}', 'Invalid format: body is not valid JSON'],
    ['{"site_id": NaN}', 'Invalid format: body is not valid JSON'],
    ['[]', 'Invalid format: an event must be a JSON object'],
    ['null', 'Invalid format: an event must be a JSON object'],
    ['"event"', 'Invalid format: an event must be a JSON object'],
    ['{}', 'Missing required field: site_id'],
    ['{"site_id": "s"}', 'Missing required field: event_type'],
    ['{"site_id": "s", "event_type": 5}', 'Invalid field: event_type must be a string'],
    ['{"site_id": "s", "event_type": "x", "timestamp": 1e999}', 'Invalid field: timestamp must be a finite number'],
    ['{"site_id": "s", "event_type": "x", "n": 1e999}', 'Invalid field: n must be a finite number'],
    ['{"site_id": "s\\u0000", "event_type": "x"}', 'Invalid field: site_id must not contain NUL characters'],
    ['{"site_id": "s", "event_type": "x", "a": "\\u0000"}', 'Invalid field: a must not contain NUL characters'],
    [
      `{"site_id": "s", "event_type": "x", "url": "${'u'.repeat(2049)}"}`,
      'Invalid field: url exceeds maximum length of 2048',
    ],
  ])('%s', async (sent, error) => {
    const { status, body } = await gateway.collect(sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual(refused(error))
  })
})

test('16,000 levels of nesting are answered 400, and the service goes on', async () => {
  const deep = `${'['.repeat(16_000)}${']'.repeat(16_000)}`
  for (const sent of [
    deep,
    '['.repeat(32_000),
    '{"a":'.repeat(6_000),
    `{"site_id":"s","event_type":"x","a":${deep}}`,
    `{"site_id":${deep}}`,
  ]) {
    expect((await gateway.collect(sent)).status).toBe(400)
  }
  expect((await gateway.collect({ site_id: 'goes-on', event_type: 'x' })).status).toBe(202)
})

test('the route requires a key with the scope events:write, the method POST and JSON', async () => {
  const event = { site_id: 's', event_type: 'x' }
  expect((await gateway.collect(event, { key: 'none' })).status).toBe(401)
  for (const send of [gateway.collect, gateway.collectBatch]) {
    const forbidden = await send(event, { key: gateway.keys.reader })
    expect(forbidden.status).toBe(403)
    expect(forbidden.body).toStrictEqual(refused('Insufficient scope: requires events:write'))
  }
  const response = await fetch(`${gateway.service.url}/collect`)
  expect(response.status).toBe(405)
  expect(response.headers.get('allow')).toBe('POST')
  const { status, body } = await gateway.collect(event, { headers: { 'Content-Type': 'application/x-ndjson' } })
  expect(status).toBe(415)
  expect(body).toStrictEqual(refused('Content-Type must be application/json or text/plain'))
})

test('rejected events are neither in the log nor in the list of sites', async () => {
  expect((await gateway.collect({ site_id: 'never', event_type: '' })).status).toBe(400)
  expect((await gateway.collect({ site_id: 'never', event_type: 'x', timestamp: 5 })).status).toBe(400)
  await gateway.collect({ site_id: 'after', event_type: 'x' })
  await gateway.stored('after', 1)
  expect(await gateway.stored('never', 0)).toStrictEqual([])
  const sites = await gateway.postgres.db.selectFrom('sites').select('site_id').execute()
  expect(sites).not.toContainEqual({ site_id: 'never' })
})

test('the log line of a request has ids and counts, and neither the event nor the key', async () => {
  await gateway.collect(
    { site_id: 'logged', event_type: 'x', user_id: 'a-user' },
    { headers: { 'X-Request-Id': 'logged' } },
  )
  const line = gateway.service.lines().find(({ request_id }) => request_id === 'logged')
  expect(line).toMatchObject({ route: '/collect', status: 202, key_id: 'key_prod', site_id: 'logged', events: 1 })
  expect(gateway.service.text()).not.toContain('a-user')
  expect(gateway.service.text()).not.toContain(gateway.keys.prod)
})
