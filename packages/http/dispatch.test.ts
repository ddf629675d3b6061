import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { type Environment, type Scope, scopes } from '@sluice/contracts/scopes'
import { AppError, unavailable } from '@sluice/runtime/errors'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import {
  connectRaw,
  keysInMemory,
  request,
  startTestService,
  type TestService,
} from '../../tests/support/test-service.ts'
import type { ApiRequest, HandlerResult, Route } from './route.ts'

const key = generateKey('prod')
const devKey = generateKey('dev')
const reader = generateKey('prod')
const admin = generateKey('prod')
const revoked = generateKey('prod')
const expired = generateKey('prod')
const unknown = generateKey('prod')

/** The request that the handler received last, and the function that handles requests. */
let lastRequest: ApiRequest | undefined
let handle: (request: ApiRequest) => Promise<HandlerResult> = () => Promise.resolve({ status: 200 })

const common = {
  limit: 'events',
  handle: (received: ApiRequest) => {
    lastRequest = received
    return handle(received)
  },
} as const

const routes: Route[] = [
  {
    ...common,
    method: 'POST',
    path: '/things',
    scope: 'events:write',
    body: { kind: 'bytes', types: ['application/json', 'application/x-ndjson'], maxBytes: 100 },
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
  lastRequest = undefined
  handle = () => Promise.resolve({ status: 200 })
})

interface RequestParts {
  method?: string
  key?: string
  headers?: Record<string, string>
  body?: string
}

function sendRequest(path: string, { method = 'GET', key: sentKey = key, headers = {}, body }: RequestParts = {}) {
  return request(`${service.url}${path}`, {
    method,
    headers: { ...(sentKey === '' ? {} : { Authorization: `Bearer ${sentKey}` }), ...headers },
    ...(body === undefined ? {} : { body }),
  })
}

const post = (sent: RequestParts = {}) =>
  sendRequest('/things', {
    method: 'POST',
    body: '{}',
    ...sent,
    headers: { 'Content-Type': 'application/json', ...sent.headers },
  })

describe('checks are made in the order of docs/http-interface.md#order-of-checks', () => {
  // Each request has one more mistake than the one before it.
  const wrongBody = { body: 'x'.repeat(101) }
  const wrongType = { ...wrongBody, headers: { 'Content-Type': 'text/html' } }
  const wrongScope = { ...wrongType, key: reader }
  const wrongKey = { ...wrongType, key: unknown }

  test.each<[number, string, string, RequestParts]>([
    [413, 'body', '/things', { ...wrongBody, headers: { 'Content-Type': 'application/json' } }],
    [415, 'content type', '/things', wrongType],
    [403, 'scope', '/things', wrongScope],
    [401, 'credential', '/things', wrongKey],
    [405, 'method', '/things', { ...wrongKey, method: 'PUT' }],
    [404, 'route', '/thing', { ...wrongKey, method: 'PUT' }],
  ])('%i for a mistake in the %s', async (status, _what, path, sent) => {
    expect((await sendRequest(path, { method: 'POST', ...sent })).status).toBe(status)
    expect(lastRequest).toBeUndefined()
  })

  test('200 for a request without a mistake', async () => {
    expect((await post()).status).toBe(200)
  })
})

describe('404 is the answer to the unknown path', () => {
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
    const { status, body } = await sendRequest(path)
    expect(status).toBe(404)
    expect(body).toStrictEqual({ success: false, error: 'Not found', timestamp: expect.any(Number) })
  })
})

test.each(['/things/%', '/things/%zz', '/things/%ff', '/things/%c3%28', '/things/a/parts/%e0%80'])(
  '400 is the answer to %s, which is not valid percent-encoding',
  async (path) => {
    const { status, body } = await sendRequest(path)
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid format: path is not valid percent-encoding')
  },
)

describe('405 lists the allowed methods', () => {
  test.each([
    ['GET', '/things', 'POST'],
    ['PATCH', '/things/a', 'GET, DELETE, HEAD'],
    ['OPTIONS', '/things/a', 'GET, DELETE, HEAD'],
    ['POST', '/scope/admin', 'GET, HEAD'],
  ])('for %s %s', async (method, path, allow) => {
    const { status, headers, body } = await sendRequest(path, { method, key: '' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe(allow)
    expect(body).toStrictEqual({
      success: false,
      error: `Method not allowed. Use ${allow}`,
      timestamp: expect.any(Number),
    })
  })

  test('for HEAD', async () => {
    const response = await fetch(`${service.url}/things`, { method: 'HEAD' })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('POST')
  })
})

describe('401 with the same body is the answer to', () => {
  const mistyped = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`

  test.each([
    ['no credential', {}],
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
    const answer = await sendRequest('/things/a', { key: '', headers })
    expect(answer.status).toBe(401)
    expect(answer.body).toStrictEqual({ success: false, error: 'Invalid API key', timestamp: expect.any(Number) })
    expect(lastRequest).toBeUndefined()
  })

  test.each(['', 'x', '__proto__', `${key}%00`, 'a'.repeat(10_000)])('the query ?api_key=%s', async (sentKey) => {
    expect((await sendRequest(`/things/a?api_key=${sentKey}`, { key: '' })).status).toBe(401)
  })
})

describe('a credential', () => {
  test('in the header is accepted with the scheme in any letter case', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
      expect((await sendRequest('/things/a', { key: '', headers: { Authorization: `${scheme} ${key}` } })).status).toBe(
        200,
      )
    }
  })

  test('in the query is accepted', async () => {
    expect((await sendRequest(`/things/a?api_key=${key}`, { key: '' })).status).toBe(200)
    expect((await sendRequest(`/things/a?a=1&api_key=${key}&b=2`, { key: '' })).status).toBe(200)
  })

  test('in the header takes precedence over one in the query, even when it is invalid', async () => {
    const both = (header: string, query: string) =>
      sendRequest(`/things/a?api_key=${query}`, { key: '', headers: { Authorization: header } })
    expect((await both(`Bearer ${key}`, unknown)).status).toBe(200)
    expect((await both(`Bearer ${unknown}`, key)).status).toBe(401)
    expect((await both('Bearer', key)).status).toBe(401)
  })

  test('in the query is used when the Authorization scheme is not Bearer', async () => {
    const headers = { Authorization: 'Basic dXNlcjpwYXNz' }
    expect((await sendRequest(`/things/a?api_key=${key}`, { key: '', headers })).status).toBe(200)
  })

  test('reaches the handler with its rights, without the key', async () => {
    await sendRequest(`/things/a?api_key=${devKey}&api_key=x`, { key: '' })
    expect(lastRequest?.credential).toStrictEqual({
      keyId: 'key_dev',
      name: 'key 1',
      environment: 'dev',
      scopes: ['events:write'],
      siteIds: null,
      rateLimits: null,
      allowedOrigins: null,
      expiresAt: null,
    })
    expect(lastRequest?.query).toEqual({})
    expect(JSON.stringify(lastRequest)).not.toContain(devKey)
  })
})

describe('scopes', () => {
  const scopesByKey: Record<string, readonly string[]> = {
    [key]: ['events:write'],
    [reader]: ['stats:read'],
    [admin]: scopes,
  }

  test.each(scopes)('%s is required by the routes that declare it', async (scope) => {
    for (const [heldKey, granted] of Object.entries(scopesByKey)) {
      const { status, body } = await sendRequest(`/scope/${scope.replace(':', '-')}`, { key: heldKey })
      expect(status).toBe(granted.includes(scope) ? 200 : 403)
      if (status === 403) expect(body.error).toBe(`Insufficient scope: requires ${scope}`)
    }
  })
})

describe('the envelope', () => {
  test('of a success has a timestamp and the data', async () => {
    const before = Date.now()
    handle = () => Promise.resolve({ status: 201, data: { a: [1, null] }, headers: { 'X-Mine': 'yes' } })
    const { status, headers, body } = await sendRequest('/things/a')
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

  test('of a success without data has no data field', async () => {
    expect((await sendRequest('/things/a')).body).toStrictEqual({ success: true, timestamp: expect.any(Number) })
  })

  test('of a failure may have data', async () => {
    handle = () => Promise.reject(new AppError('conflict', { message: 'Not ready', data: { errors: [1] } }))
    const { status, body } = await sendRequest('/things/a')
    expect(status).toBe(409)
    expect(body).toStrictEqual({
      success: false,
      error: 'Not ready',
      timestamp: expect.any(Number),
      data: { errors: [1] },
    })
  })

  test('has a Content-Length in bytes', async () => {
    handle = () => Promise.resolve({ status: 200, data: 'ü\u{1F600}' })
    const response = await fetch(`${service.url}/things/a`, { headers: { Authorization: `Bearer ${key}` } })
    const text = await response.text()
    expect(JSON.parse(text)).toMatchObject({ data: 'ü\u{1F600}' })
    expect(Buffer.byteLength(text)).toBe(Number(response.headers.get('content-length')))
  })

  test('is absent from the response to HEAD, which is otherwise the same as for GET', async () => {
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

describe('the handler receives', () => {
  test('decoded path parameters', async () => {
    await sendRequest('/things/%C3%BC%2Fa%20b/parts/__proto__')
    expect({ ...lastRequest?.params }).toStrictEqual({ id: 'ü/a b', part: '__proto__' })
  })

  test('query parameters, with repeated ones as lists and __proto__ as a plain name', async () => {
    await sendRequest('/things/a?x=1&y=2&y=3&e=&n&u=%C3%BC+%26&__proto__=p&bad=%zz')
    expect(Object.entries(lastRequest?.query ?? {})).toStrictEqual([
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
    expect(lastRequest?.body.type).toBe('application/x-ndjson')
    expect(lastRequest?.body.bytes.toString()).toBe('{"ü": 1}\n')
  })

  test('an empty body if the route declares no body', async () => {
    await sendRequest('/things/a', {
      method: 'DELETE',
      body: 'x'.repeat(1_000),
      headers: { 'Content-Type': 'text/html' },
    })
    expect(lastRequest?.body).toStrictEqual({ bytes: Buffer.alloc(0), type: '' })
  })

  test('the time at which the last byte of the request arrived', async () => {
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
    expect(lastRequest?.receivedAt).toBeGreaterThanOrEqual(last)
    expect(lastRequest?.receivedAt).toBeLessThanOrEqual(Date.now())
  })

  test('a signal that aborts when the client disconnects', async () => {
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
  test.each(['a', 'A-z_0.9:x', 'x'.repeat(128)])('%j is returned as it was sent', async (id) => {
    const { headers } = await sendRequest('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toBe(id)
    expect(lastRequest?.requestId).toBe(id)
  })

  test.each(['', 'x'.repeat(129), 'a b', 'a"b', 'a,b', '{"a":1}', '<b>'])('%j is replaced by a new id', async (id) => {
    const { headers } = await sendRequest('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
    expect(lastRequest?.requestId).toBe(headers.get('x-request-id'))
  })

  test('is in every response, for errors, unknown routes, wrong methods and invalid paths too', async () => {
    for (const [path, sent] of [
      ['/things/a', { key: '' }],
      ['/nothing', {}],
      ['/things', {}],
      ['/things/%', {}],
    ] as const) {
      const { headers } = await sendRequest(path, { ...sent, headers: { 'X-Request-Id': 'mine' } })
      expect(headers.get('x-request-id')).toBe('mine')
    }
  })
})

describe('a failure', () => {
  test('that is not an AppError is answered 500 without details and logged with its cause', async () => {
    const cause = new Error('relation "secrets" does not exist')
    handle = () => Promise.reject(new TypeError('canary: internals', { cause }))
    const { status, body } = await sendRequest('/things/a', { headers: { 'X-Request-Id': 'fails' } })
    expect(status).toBe(500)
    expect(body).toStrictEqual({ success: false, error: 'Internal server error', timestamp: expect.any(Number) })
    const line = service.lines().find(({ request_id }) => request_id === 'fails')
    expect(line).toMatchObject({ level: 'error', status: 500, route: '/things/:id', key_id: 'key_writer' })
    expect(JSON.stringify(line)).toContain('canary: internals')
    expect(JSON.stringify(line)).toContain('relation \\"secrets\\" does not exist')
  })

  test('that is thrown synchronously, or by the JSON encoding, is answered 500', async () => {
    handle = () => {
      throw new Error('canary')
    }
    expect((await sendRequest('/things/a')).status).toBe(500)
    // JSON.stringify throws for a bigint.
    handle = () => Promise.resolve({ status: 200, data: 1n })
    expect((await sendRequest('/things/a')).status).toBe(500)
  })

  test('with status 500 does not show its message to the client', async () => {
    handle = () => Promise.reject(new AppError('internal', { message: 'canary', internal: 'canary' }))
    const { body } = await sendRequest('/things/a')
    expect(body.error).toBe('Internal server error')
  })

  test('that is temporary is answered 503 with Retry-After, and its reason is logged only', async () => {
    handle = () => Promise.reject(unavailable('Postgres: canary', new Error('ECONNREFUSED'), 7))
    const { status, headers, body } = await sendRequest('/things/a', { headers: { 'X-Request-Id': 'away' } })
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('7')
    expect(body).toStrictEqual({
      success: false,
      error: 'Service temporarily unavailable',
      timestamp: expect.any(Number),
    })
    const line = service.lines().find(({ request_id }) => request_id === 'away')
    expect(line).toMatchObject({ level: 'error', status: 503, error: 'Postgres: canary' })
    // Under overload there are thousands of these errors: a stack would cost more than the rest of the request.
    expect(line).not.toHaveProperty('err')
  })
})

describe('the log', () => {
  test('of a quiet route has successes at level debug and errors at their usual level', async () => {
    const levelOf = async (id: string, answer: () => Promise<HandlerResult>): Promise<unknown> => {
      handle = answer
      await sendRequest('/quiet', { headers: { 'X-Request-Id': id } })
      return service.lines().find(({ request_id }) => request_id === id)?.level
    }
    expect(await levelOf('taken', () => Promise.resolve({ status: 202 }))).toBe('debug')
    expect(await levelOf('bad', () => Promise.reject(new AppError('invalid_field', { message: 'bad' })))).toBe('info')
    expect(await levelOf('down', () => Promise.reject(unavailable('down')))).toBe('error')
  })

  test('has one line for each request, with the fields that the handler adds', async () => {
    const before = service.lines().length
    handle = ({ log }) => {
      log({ site_id: 'shop', events: 2 })
      log({ bytes: 10 })
      return Promise.resolve({ status: 202 })
    }
    await sendRequest('/things/a?x=1', { headers: { 'X-Request-Id': 'logged' } })
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

  test('contains the key id and the reason of a refusal', async () => {
    await sendRequest('/scope/admin', { headers: { 'X-Request-Id': 'refused' } })
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

  test('never contains a key, wherever in the request it was sent', async () => {
    handle = () => Promise.reject(new Error('fails'))
    for (const sentKey of [key, devKey, unknown, revoked, reader]) {
      await sendRequest(`/things/a?api_key=${sentKey}`, { key: '' })
      await sendRequest(`/things/${sentKey}?api_key=${sentKey}`, {
        key: sentKey,
        headers: { Referer: `?api_key=${sentKey}` },
      })
      await sendRequest(`/nothing?api_key=${sentKey}`, { key: sentKey })
      await sendRequest(`/things?api_key=${sentKey}`, { key: '' })
      await sendRequest(`/things/%?api_key=${sentKey}`, { key: '' })
      await post({ key: '', headers: { Authorization: `Basic ${sentKey}` }, body: sentKey })
      await post({ key: sentKey, headers: { 'Content-Type': sentKey }, body: sentKey })
    }
    for (const sentKey of [key, devKey, unknown, revoked, reader]) {
      expect(service.text()).not.toContain(sentKey)
      expect(service.text()).not.toContain(sentKey.slice(9, 30))
    }
  })
})

test('requests are counted by route, method and status, and all unknown paths share one series', async () => {
  await sendRequest('/things/one')
  await sendRequest('/things/two')
  for (let n = 0; n < 5; n++) await sendRequest(`/nothing/${n}`)
  const text = await service.metrics.metrics()
  expect(text).toMatch(/sluice_http_requests_total\{route="\/things\/:id",method="GET",status="200"\} \d+/)
  expect(text).toMatch(/sluice_http_requests_total\{route="",method="GET",status="404"\} \d+/)
  expect(text).not.toContain('nothing')
  expect(text).not.toContain('/things/one')
})

test('invalid HTTP and oversized headers close their own connection only', async () => {
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
  expect((await sendRequest('/things/a')).status).toBe(200)
})
