import { describe, expect, test } from '@jest/globals'
import { AppError } from '@sluice/runtime/errors'
import { connectRaw } from '../../tests/support/test-service.ts'
import { type RequestParts, useTestRoutes } from '../../tests/support/use-test-routes.ts'

const testRoutes = useTestRoutes()
const { key, reader, unknown } = testRoutes.keys
const { sendRequest, post } = testRoutes

describe('checks are made in the order of docs/http-interface.md#order-of-checks', () => {
  // Each request has one more mistake than the previous one.
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
    expect(testRoutes.lastRequest).toBeUndefined()
  })

  test('200 for a request without a mistake', async () => expect((await post()).status).toBe(200))
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

test.each(['foo://bar', 'http://[%25]/things'])(
  '404 is the answer to the target %s, in which Express finds no path',
  async (target) => {
    const connection = await connectRaw(testRoutes.service.port)
    connection.send(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    const answer = await connection.closed
    expect(answer).toMatch(/^HTTP\/1\.1 404 /)
    expect(answer).toMatch(/^X-Request-Id: /im)
    expect(answer).toContain('{"success":false,"error":"Not found"')
  },
)

test.each(['/things/%', '/things/%zz', '/things/%ff', '/things/%c3%28', '/things/a/parts/%e0%80'])(
  '400 is the answer to %s, which is not valid percent-encoding',
  async (path) => {
    const { status, body } = await sendRequest(path)
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid format: path is not valid percent-encoding')
  },
)

test.each(['?name=%', '?name=%zz', '?%ff=1', '?a=1&b=%c3%28'])(
  '400 is the answer to the query %s, which is not valid percent-encoding',
  async (query) => {
    const { status, body } = await sendRequest(`/things/a${query}`)
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid format: query is not valid percent-encoding')
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
    const response = await fetch(`${testRoutes.service.url}/things`, { method: 'HEAD' })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('POST')
  })
})

describe('the envelope', () => {
  test('of a success has a timestamp and the data', async () => {
    const before = Date.now()
    testRoutes.handle = () => Promise.resolve({ status: 201, data: { a: [1, null] }, headers: { 'X-Mine': 'yes' } })
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
    testRoutes.handle = () => Promise.reject(new AppError('conflict', { message: 'Not ready', data: { errors: [1] } }))
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
    testRoutes.handle = () => Promise.resolve({ status: 200, data: 'ü\u{1F600}' })
    const response = await fetch(`${testRoutes.service.url}/things/a`, { headers: { Authorization: `Bearer ${key}` } })
    const text = await response.text()
    expect(JSON.parse(text)).toMatchObject({ data: 'ü\u{1F600}' })
    expect(Buffer.byteLength(text)).toBe(Number(response.headers.get('content-length')))
  })

  test('is absent from the response to HEAD, which is otherwise the same as for GET', async () => {
    testRoutes.handle = () => Promise.resolve({ status: 200, data: { a: 1 } })
    const options = { headers: { Authorization: `Bearer ${key}` } }
    const get = await fetch(`${testRoutes.service.url}/things/a`, options)
    const head = await fetch(`${testRoutes.service.url}/things/a`, { ...options, method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(await head.text()).toBe('')
    expect(head.headers.get('content-length')).toBe(get.headers.get('content-length'))
    expect((await fetch(`${testRoutes.service.url}/things/a`, { method: 'HEAD' })).status).toBe(401)
  })
})

describe('the handler receives', () => {
  test('decoded path parameters', async () => {
    await sendRequest('/things/%C3%BC%2Fa%20b/parts/__proto__')
    expect({ ...testRoutes.lastRequest?.params }).toStrictEqual({ id: 'ü/a b', part: '__proto__' })
  })

  test('query parameters, with repeated ones as lists and __proto__ as a plain name', async () => {
    await sendRequest('/things/a?x=1&y=2&y=3&e=&n&u=%C3%BC+%26&__proto__=p')
    expect(Object.entries(testRoutes.lastRequest?.query ?? {})).toStrictEqual([
      ['x', '1'],
      ['y', ['2', '3']],
      ['e', ''],
      ['n', ''],
      ['u', 'ü &'],
      ['__proto__', 'p'],
    ])
    expect({}).not.toHaveProperty('p')
  })

  test('the body’s bytes and media type', async () => {
    await post({ body: '{"ü": 1}\n', headers: { 'Content-Type': 'Application/X-NDJSON; charset=UTF-8' } })
    expect(testRoutes.lastRequest?.body.type).toBe('application/x-ndjson')
    expect(testRoutes.lastRequest?.body.bytes.toString()).toBe('{"ü": 1}\n')
  })

  test('an empty body if the route declares no body', async () => {
    await sendRequest('/things/a', {
      method: 'DELETE',
      body: 'x'.repeat(1_000),
      headers: { 'Content-Type': 'text/html' },
    })
    expect(testRoutes.lastRequest?.body).toStrictEqual({ bytes: Buffer.alloc(0), type: '' })
  })

  test('the time at which the last byte of the request arrived', async () => {
    const connection = await connectRaw(testRoutes.service.port)
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
    expect(testRoutes.lastRequest?.receivedAt).toBeGreaterThanOrEqual(last)
    expect(testRoutes.lastRequest?.receivedAt).toBeLessThanOrEqual(Date.now())
  })

  test('a signal that aborts when the client disconnects', async () => {
    const { promise: entered, resolve: enter } = Promise.withResolvers<undefined>()
    const { promise: left, resolve: leave } = Promise.withResolvers<undefined>()
    testRoutes.handle = async ({ signal }) => {
      enter(undefined)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      leave(undefined)
      return { status: 200, data: 'nobody reads this' }
    }
    const abort = new AbortController()
    const answer = fetch(`${testRoutes.service.url}/things/a`, {
      headers: { Authorization: `Bearer ${key}`, 'X-Request-Id': 'gone' },
      signal: abort.signal,
    })
    await entered
    abort.abort()
    await expect(answer).rejects.toThrow()
    await left
    expect(testRoutes.service.lines()).toContainEqual(
      expect.objectContaining({ request_id: 'gone', status: 499, aborted: true }),
    )
  })
})

describe('X-Request-Id', () => {
  test.each(['a', 'A-z_0.9:x', 'x'.repeat(128)])('%j is returned as it was sent', async (id) => {
    const { headers } = await sendRequest('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toBe(id)
    expect(testRoutes.lastRequest?.requestId).toBe(id)
  })

  test.each(['', 'x'.repeat(129), 'a b', 'a"b', 'a,b', '{"a":1}', '<b>'])('%j is replaced by a new id', async (id) => {
    const { headers } = await sendRequest('/things/a', { headers: { 'X-Request-Id': id } })
    expect(headers.get('x-request-id')).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
    expect(testRoutes.lastRequest?.requestId).toBe(headers.get('x-request-id'))
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

test('invalid HTTP and oversized headers close their own connection only', async () => {
  for (const bytes of [
    'GIBBERISH\r\n\r\n',
    '\0\0\0\0',
    'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
    'POST /things HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
  ]) {
    const connection = await connectRaw(testRoutes.service.port)
    connection.send(bytes)
    expect(await connection.closed).toMatch(/^HTTP\/1\.1 4\d\d /)
  }
  expect((await sendRequest('/things/a')).status).toBe(200)
})
