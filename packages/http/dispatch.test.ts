import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/contracts/api-key'
import { SluiceError, unavailable } from '@sluice/contracts/errors'
import { type Environment, type Scope, scopes } from '@sluice/contracts/scopes'
import { capturedLogger } from '@sluice/runtime/testing'
import type { Answer, ApiRequest, Route } from './route.ts'
import { connectRaw, keysInMemory, request, startTestService, type TestService } from './testing.ts'

const key = generateKey('prod')
const devKey = generateKey('dev')
const reader = generateKey('prod')
const admin = generateKey('prod')
const revoked = generateKey('prod')
const expired = generateKey('prod')
const unknown = generateKey('prod')

/** What the handler was given last, and what it does. */
let seen: ApiRequest | undefined
let handle: (request: ApiRequest) => Promise<Answer> = () => Promise.resolve({ status: 200 })

const common = {
  limit: 'events',
  handle: (given: ApiRequest) => {
    seen = given
    return handle(given)
  },
} as const

const routes: Route[] = [
  {
    ...common,
    method: 'POST',
    path: '/things',
    scope: 'events:write',
    body: { types: ['application/json', 'application/x-ndjson'], maxBytes: 100 },
  },
  { ...common, method: 'GET', path: '/things/:id', scope: 'events:write' },
  { ...common, method: 'DELETE', path: '/things/:id', scope: 'events:write' },
  { ...common, method: 'GET', path: '/quiet', scope: 'events:write', quiet: true },
  { ...common, method: 'GET', path: '/things/:id/parts/:part', scope: 'events:write' },
  ...scopes.map((scope): Route => ({ ...common, method: 'GET', path: `/scope/${scope.replace(':', '-')}`, scope })),
]

const captured = capturedLogger()
let service: TestService

beforeAll(async () => {
  const writes: Scope[] = ['events:write']
  const records = {
    [key]: { keyId: 'key_writer', scopes: writes },
    [devKey]: { keyId: 'key_dev', scopes: writes, environment: 'dev' as Environment },
    [reader]: { keyId: 'key_reader', scopes: ['stats:read'] as Scope[] },
    [admin]: { keyId: 'key_admin', scopes: ['admin'] as Scope[] },
    [revoked]: { scopes: writes, revokedAt: new Date(Date.now() - 1) },
    [expired]: { scopes: writes, expiresAt: new Date(Date.now() - 1) },
  }
  service = await startTestService({ routes }, keysInMemory(records), captured)
})

afterAll(async () => {
  await service.stop()
})

beforeEach(() => {
  seen = undefined
  handle = () => Promise.resolve({ status: 200 })
})

interface Sent {
  method?: string
  key?: string
  headers?: Record<string, string>
  body?: string
}

function ask(path: string, { method = 'GET', key: presented = key, headers = {}, body }: Sent = {}) {
  return request(`${service.url}${path}`, {
    method,
    headers: { ...(presented === '' ? {} : { Authorization: `Bearer ${presented}` }), ...headers },
    ...(body === undefined ? {} : { body }),
  })
}

const post = (sent: Sent = {}) =>
  ask('/things', {
    method: 'POST',
    body: '{}',
    ...sent,
    headers: { 'Content-Type': 'application/json', ...sent.headers },
  })

describe('checks are made in the order of the contract', () => {
  // Each request is wrong in one respect more than the one before it.
  const wrongBody = { body: 'x'.repeat(101) }
  const wrongType = { ...wrongBody, headers: { 'Content-Type': 'text/html' } }
  const wrongScope = { ...wrongType, key: reader }
  const wrongKey = { ...wrongType, key: unknown }

  test.each<[number, string, string, Sent]>([
    [413, 'body', '/things', { ...wrongBody, headers: { 'Content-Type': 'application/json' } }],
    [415, 'content type', '/things', wrongType],
    [403, 'scope', '/things', wrongScope],
    [401, 'credential', '/things', wrongKey],
    [405, 'method', '/things', { ...wrongKey, method: 'PUT' }],
    [404, 'route', '/thing', { ...wrongKey, method: 'PUT' }],
  ])('%i: %s', async (status, _what, path, sent) => {
    expect((await ask(path, { method: 'POST', ...sent })).status).toBe(status)
    expect(seen).toBeUndefined()
  })

  test('200: all is right', async () => {
    expect((await post()).status).toBe(200)
  })
})

describe('404', () => {
  test.each([
    '/',
    '/nothing',
    '/things/',
    '/Things',
    '/things/a/',
    '/things/a/parts',
    '//things',
    '/things/a%00b',
    '/%',
  ])('%s', async (path) => {
    const { status, body } = await ask(path)
    expect(status).toBe(404)
    expect(body).toStrictEqual({ success: false, error: 'Not found', timestamp: expect.any(Number) })
  })
})

test.each(['/things/%', '/things/%zz', '/things/%ff', '/things/%c3%28', '/things/a/parts/%e0%80'])(
  '400: %s is no valid percent-encoding',
  async (path) => {
    const { status, body } = await ask(path)
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid format: path is not valid percent-encoding')
  },
)

describe('405 says which methods there are', () => {
  test.each([
    ['GET', '/things', 'POST'],
    ['PATCH', '/things/a', 'GET, DELETE, HEAD'],
    ['OPTIONS', '/things/a', 'GET, DELETE, HEAD'],
    ['POST', '/scope/admin', 'GET, HEAD'],
  ])('%s %s', async (method, path, allow) => {
    const { status, headers, body } = await ask(path, { method, key: '' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe(allow)
    expect(body).toStrictEqual({
      success: false,
      error: `Method not allowed. Use ${allow}`,
      timestamp: expect.any(Number),
    })
  })

  test('to HEAD too', async () => {
    const response = await fetch(`${service.url}/things`, { method: 'HEAD' })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('POST')
  })
})

describe('401: one answer for every unusable credential', () => {
  const mistyped = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`

  test.each([
    ['none', {}],
    ['an unknown key', { Authorization: `Bearer ${unknown}` }],
    ['a revoked key', { Authorization: `Bearer ${revoked}` }],
    ['an expired key', { Authorization: `Bearer ${expired}` }],
    ['a mistyped key', { Authorization: `Bearer ${mistyped}` }],
    ['half a key', { Authorization: `Bearer ${key.slice(0, 20)}` }],
    ['two keys', { Authorization: `Bearer ${key} ${key}` }],
    ['no key after the scheme', { Authorization: 'Bearer' }],
    ['the key without a scheme', { Authorization: key }],
    ['another scheme', { Authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }],
    ['the key in another header', { 'X-Api-Key': key }],
    ['a cookie', { Cookie: `session=${key}` }],
  ])('%s', async (_what, headers) => {
    const answer = await ask('/things/a', { key: '', headers: headers })
    expect(answer.status).toBe(401)
    expect(answer.body).toStrictEqual({ success: false, error: 'Invalid API key', timestamp: expect.any(Number) })
    expect(seen).toBeUndefined()
  })

  test.each(['', 'x', '__proto__', `${key}%00`, 'a'.repeat(10_000)])('?api_key=%s', async (presented) => {
    expect((await ask(`/things/a?api_key=${presented}`, { key: '' })).status).toBe(401)
  })
})

describe('credentials', () => {
  test('in the header, whatever the case of the scheme', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
      expect((await ask('/things/a', { key: '', headers: { Authorization: `${scheme} ${key}` } })).status).toBe(200)
    }
  })

  test('in the query', async () => {
    expect((await ask(`/things/a?api_key=${key}`, { key: '' })).status).toBe(200)
    expect((await ask(`/things/a?a=1&api_key=${key}&b=2`, { key: '' })).status).toBe(200)
  })

  test('the header wins over the query, even when it is invalid', async () => {
    const both = (header: string, query: string) =>
      ask(`/things/a?api_key=${query}`, { key: '', headers: { Authorization: header } })
    expect((await both(`Bearer ${key}`, unknown)).status).toBe(200)
    expect((await both(`Bearer ${unknown}`, key)).status).toBe(401)
    expect((await both('Bearer', key)).status).toBe(401)
  })

  test('an Authorization scheme other than Bearer is ignored', async () => {
    const headers = { Authorization: 'Basic dXNlcjpwYXNz' }
    expect((await ask(`/things/a?api_key=${key}`, { key: '', headers })).status).toBe(200)
  })

  test('reach the handler as id, environment and scopes, never as the key', async () => {
    await ask(`/things/a?api_key=${devKey}&api_key=x`, { key: '' })
    expect(seen?.credential).toStrictEqual({
      keyId: 'key_dev',
      environment: 'dev',
      scopes: ['events:write'],
      siteIds: null,
      rateLimits: null,
      expiresAt: null,
    })
    expect(seen?.query).toEqual({})
    expect(JSON.stringify(seen)).not.toContain(devKey)
  })
})

describe('scopes', () => {
  const holders: Record<string, readonly string[]> = {
    [key]: ['events:write'],
    [reader]: ['stats:read'],
    [admin]: scopes,
  }

  test.each(scopes)('%s is asked for where the route says so', async (scope) => {
    for (const [holder, granted] of Object.entries(holders)) {
      const { status, body } = await ask(`/scope/${scope.replace(':', '-')}`, { key: holder })
      expect(status).toBe(granted.includes(scope) ? 200 : 403)
      if (status === 403) expect(body.error).toBe(`Insufficient scope: requires ${scope}`)
    }
  })
})

describe('the envelope', () => {
  test('of a success', async () => {
    const before = Date.now()
    handle = () => Promise.resolve({ status: 201, data: { a: [1, null] }, headers: { 'X-Mine': 'yes' } })
    const { status, headers, body } = await ask('/things/a')
    expect(status).toBe(201)
    expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number), data: { a: [1, null] } })
    expect(body.timestamp).toBeGreaterThanOrEqual(before)
    expect(body.timestamp).toBeLessThanOrEqual(Date.now())
    expect(headers.get('x-mine')).toBe('yes')
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('x-powered-by')).toBeNull()
  })

  test('of a success without data has none', async () => {
    expect((await ask('/things/a')).body).toStrictEqual({ success: true, timestamp: expect.any(Number) })
  })

  test('of a failure may have data', async () => {
    handle = () => Promise.reject(new SluiceError(409, { message: 'Not ready', data: { errors: [1] } }))
    const { status, body } = await ask('/things/a')
    expect(status).toBe(409)
    expect(body).toStrictEqual({
      success: false,
      error: 'Not ready',
      timestamp: expect.any(Number),
      data: { errors: [1] },
    })
  })

  test('has its length in bytes', async () => {
    handle = () => Promise.resolve({ status: 200, data: 'ü\u{1F600}' })
    const response = await fetch(`${service.url}/things/a`, { headers: { Authorization: `Bearer ${key}` } })
    const text = await response.text()
    expect(JSON.parse(text)).toMatchObject({ data: 'ü\u{1F600}' })
    expect(Buffer.byteLength(text)).toBe(Number(response.headers.get('content-length')))
  })

  test('is left out of the answer to HEAD, all else is as for GET', async () => {
    handle = () => Promise.resolve({ status: 200, data: { a: 1 } })
    const options = { headers: { Authorization: `Bearer ${key}` } }
    const get = await fetch(`${service.url}/things/a`, options)
    const head = await fetch(`${service.url}/things/a`, { ...options, method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(await head.text()).toBe('')
    expect(head.headers.get('content-length')).toBe(get.headers.get('content-length'))
    expect((await fetch(`${service.url}/things/a`, { method: 'HEAD' })).status).toBe(401)
  })
})

describe('what the handler is given', () => {
  test('path parameters, decoded', async () => {
    await ask('/things/%C3%BC%2Fa%20b/parts/__proto__')
    expect({ ...seen?.params }).toStrictEqual({ id: 'ü/a b', part: '__proto__' })
  })

  test('query parameters: repeated ones as lists, __proto__ like any other', async () => {
    await ask('/things/a?x=1&y=2&y=3&e=&n&u=%C3%BC+%26&__proto__=p&bad=%zz')
    expect(Object.entries(seen?.query ?? {})).toStrictEqual([
      ['x', '1'],
      ['y', ['2', '3']],
      ['e', ''],
      ['n', ''],
      ['u', 'ü &'],
      ['__proto__', 'p'],
      ['bad', '%zz'],
    ])
    expect({}).not.toHaveProperty('p')
  })

  test('the body’s bytes and media type', async () => {
    await post({ body: '{"ü": 1}\n', headers: { 'Content-Type': 'Application/X-NDJSON; charset=UTF-8' } })
    expect(seen?.body.type).toBe('application/x-ndjson')
    expect(seen?.body.bytes.toString()).toBe('{"ü": 1}\n')
  })

  test('no body where the route takes none', async () => {
    await ask('/things/a', { method: 'DELETE', body: 'x'.repeat(1_000), headers: { 'Content-Type': 'text/html' } })
    expect(seen?.body).toStrictEqual({ bytes: Buffer.alloc(0), type: '' })
  })

  test('the time of receipt: when the last of it came', async () => {
    const connection = await connectRaw(service.port)
    connection.send(
      `POST /things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
        'Content-Length: 7\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n',
    )
    await connection.received(/100 Continue/)
    const headersAt = Date.now()
    while (Date.now() === headersAt) await new Promise(setImmediate)
    const last = Date.now()
    connection.send('{"a":1}')
    await connection.closed
    expect(seen?.receivedAt).toBeGreaterThanOrEqual(last)
    expect(seen?.receivedAt).toBeLessThanOrEqual(Date.now())
  })

  test('a signal that aborts when the client leaves', async () => {
    const { promise: entered, resolve: enter } = Promise.withResolvers<undefined>()
    const { promise: left, resolve: leave } = Promise.withResolvers<undefined>()
    handle = async ({ signal }) => {
      enter(undefined)
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
      leave(undefined)
      return { status: 200, data: 'nobody reads this' }
    }
    const abort = new AbortController()
    const answer = fetch(`${service.url}/things/a`, {
      headers: { Authorization: `Bearer ${key}`, 'X-Request-Id': 'gone' },
      signal: abort.signal,
    })
    await entered
    abort.abort()
    await expect(answer).rejects.toThrow()
    await left
    expect(service.lines()).toContainEqual(expect.objectContaining({ request_id: 'gone', status: 499, aborted: true }))
  })
})

describe('X-Request-Id', () => {
  test.each(['a', 'A-z_0.9:x', 'x'.repeat(128)])('%s is echoed', async (id) => {
    const { headers } = await ask('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toBe(id)
    expect(seen?.requestId).toBe(id)
  })

  test.each(['', 'x'.repeat(129), 'a b', 'a"b', 'a,b', '{"a":1}', '<b>'])('%s is replaced', async (id) => {
    const { headers } = await ask('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
    expect(seen?.requestId).toBe(headers.get('x-request-id'))
  })

  test('is on every answer: errors, unknown routes, wrong methods, unreadable paths', async () => {
    for (const [path, sent] of [
      ['/things/a', { key: '' }],
      ['/nothing', {}],
      ['/things', {}],
      ['/things/%', {}],
    ] as const) {
      const { headers } = await ask(path, { ...sent, headers: { 'X-Request-Id': 'mine' } })
      expect(headers.get('x-request-id')).toBe('mine')
    }
  })
})

describe('a failure', () => {
  test('that is not ours to show is a bare 500, and is logged with its cause', async () => {
    const cause = new Error('relation "secrets" does not exist')
    handle = () => Promise.reject(new TypeError('canary: internals', { cause }))
    const { status, body } = await ask('/things/a', { headers: { 'X-Request-Id': 'fails' } })
    expect(status).toBe(500)
    expect(body).toStrictEqual({ success: false, error: 'Internal server error', timestamp: expect.any(Number) })
    const line = service.lines().find(({ request_id }) => request_id === 'fails')
    expect(line).toMatchObject({ level: 'error', status: 500, route: '/things/:id', key_id: 'key_writer' })
    expect(JSON.stringify(line)).toContain('canary: internals')
    expect(JSON.stringify(line)).toContain('relation \\"secrets\\" does not exist')
  })

  test('thrown before any promise is the same', async () => {
    handle = () => {
      throw new Error('canary')
    }
    expect((await ask('/things/a')).status).toBe(500)
    // What JSON can't write is no worse.
    handle = () => Promise.resolve({ status: 200, data: 1n })
    expect((await ask('/things/a')).status).toBe(500)
  })

  test('of status 500 keeps its own words from the client', async () => {
    handle = () => Promise.reject(new SluiceError(500, { message: 'canary', internal: 'canary' }))
    const { body } = await ask('/things/a')
    expect(body.error).toBe('Internal server error')
  })

  test('for the moment is 503 with Retry-After; what is away is logged, not told', async () => {
    handle = () => Promise.reject(unavailable('Postgres: canary', new Error('ECONNREFUSED'), 7))
    const { status, headers, body } = await ask('/things/a', { headers: { 'X-Request-Id': 'away' } })
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('7')
    expect(body).toStrictEqual({
      success: false,
      error: 'Service temporarily unavailable',
      timestamp: expect.any(Number),
    })
    const line = service.lines().find(({ request_id }) => request_id === 'away')
    expect(line).toMatchObject({ level: 'error', status: 503, error: 'Postgres: canary' })
    // Overload brings thousands of these: a stack would cost more than the rest of the request.
    expect(line).not.toHaveProperty('err')
  })
})

describe('the log', () => {
  test('of a quiet route tells successes at debug, refusals and failures as ever', async () => {
    const levelOf = async (id: string, answer: () => Promise<Answer>): Promise<unknown> => {
      handle = answer
      await ask('/quiet', { headers: { 'X-Request-Id': id } })
      return service.lines().find(({ request_id }) => request_id === id)?.level
    }
    expect(await levelOf('taken', () => Promise.resolve({ status: 202 }))).toBe('debug')
    expect(await levelOf('bad', () => Promise.reject(new SluiceError(400, { message: 'bad' })))).toBe('info')
    expect(await levelOf('down', () => Promise.reject(unavailable('down')))).toBe('error')
  })

  test('has one line per request, with what the handler adds', async () => {
    const before = service.lines().length
    handle = ({ log }) => {
      log({ site_id: 'shop', events: 2 })
      log({ bytes: 10 })
      return Promise.resolve({ status: 202 })
    }
    await ask('/things/a?x=1', { headers: { 'X-Request-Id': 'logged' } })
    const lines = service.lines().slice(before)
    expect(lines).toStrictEqual([
      {
        level: 'info',
        time: expect.any(Number),
        service: 'test',
        request_id: 'logged',
        method: 'GET',
        route: '/things/:id',
        status: 202,
        duration_ms: expect.any(Number),
        key_id: 'key_writer',
        site_id: 'shop',
        events: 2,
        bytes: 10,
        msg: 'request',
      },
    ])
  })

  test('names the key and the reason of a refusal', async () => {
    await ask('/scope/admin', { headers: { 'X-Request-Id': 'refused' } })
    expect(service.lines()).toContainEqual(
      expect.objectContaining({
        level: 'info',
        request_id: 'refused',
        status: 403,
        key_id: 'key_writer',
        error: 'Insufficient scope: requires admin',
      }),
    )
  })

  test('has no line with a key in it, however it was sent', async () => {
    handle = () => Promise.reject(new Error('fails'))
    for (const presented of [key, devKey, unknown, revoked, reader]) {
      await ask(`/things/a?api_key=${presented}`, { key: '' })
      await ask(`/things/${presented}?api_key=${presented}`, {
        key: presented,
        headers: { Referer: `?api_key=${presented}` },
      })
      await ask(`/nothing?api_key=${presented}`, { key: presented })
      await ask(`/things?api_key=${presented}`, { key: '' })
      await ask(`/things/%?api_key=${presented}`, { key: '' })
      await post({ key: '', headers: { Authorization: `Basic ${presented}` }, body: presented })
      await post({ key: presented, headers: { 'Content-Type': presented }, body: presented })
    }
    for (const presented of [key, devKey, unknown, revoked, reader]) {
      expect(service.text()).not.toContain(presented)
      expect(service.text()).not.toContain(presented.slice(9, 30))
    }
  })
})

test('requests are counted by route, method and status; unknown paths make no series of their own', async () => {
  await ask('/things/one')
  await ask('/things/two')
  for (let n = 0; n < 5; n++) await ask(`/nothing/${n}`)
  const text = await service.metrics.metrics()
  expect(text).toMatch(/sluice_http_requests_total\{route="\/things\/:id",method="GET",status="200"\} \d+/)
  expect(text).toMatch(/sluice_http_requests_total\{route="",method="GET",status="404"\} \d+/)
  expect(text).not.toContain('nothing')
  expect(text).not.toContain('/things/one')
})

test('what is not HTTP, and headers beyond all measure, end one connection and nothing else', async () => {
  for (const bytes of [
    'GIBBERISH\r\n\r\n',
    '\0\0\0\0',
    'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
    'POST /things HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
  ]) {
    const connection = await connectRaw(service.port)
    connection.send(bytes)
    expect(await connection.closed).toMatch(/^HTTP\/1\.1 4\d\d /)
  }
  expect((await ask('/things/a')).status).toBe(200)
})
