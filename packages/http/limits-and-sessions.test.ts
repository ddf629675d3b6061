import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/access/api-key'
import { idempotencyLimits } from '@sluice/contracts/idempotency'
import type { LimitClass } from '@sluice/contracts/rate-limits'
import type { Scope } from '@sluice/contracts/scopes'
import { openRedis, type Redis } from '@sluice/redis/open'
import { invalidField, invalidFormat, rateLimited, unavailable } from '@sluice/runtime/errors'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { keysInMemory, startTestService, type TestService } from '../../tests/support/test-service.ts'
import { hashToken } from './authenticate.ts'
import type { ApiRequest, HandlerResult, Route } from './route.ts'

const key = generateKey('prod')
const unlimitedKey = generateKey('prod')
const fullKey = generateKey('prod')
/** Has the id of `unlimitedKey`, but is bound to a site, as if that key had lost rights. */
const restrictedKey = generateKey('prod')
/** Keys with low limits; each test uses its own, so that tests do not consume each other's limits. */
const limited = Array.from({ length: 12 }, () => generateKey('prod'))
const limits = { events_per_minute: 5, queries_per_minute: 3, admin_per_minute: 2 }

let redis: Redis
let service: TestService
let calls = 0

const scope: Scope = 'admin'
const route = (parts: Partial<Route> & { path: string; limit: LimitClass }): Route =>
  ({ method: 'POST', scope, handle, ...parts }) as Route

function handle(request: ApiRequest): Promise<HandlerResult> {
  calls++
  if (request.query.fail === 'other-limit') throw rateLimited(10)
  if (request.query.fail === 'log') throw unavailable('the log is away')
  if (request.query.fail !== undefined) throw invalidField('fail', 'was asked for')
  return Promise.resolve({ status: 200, data: { call: calls } })
}

const jsonBody = { kind: 'json', maxBytes: 100 } as const

const routes: Route[] = [
  route({ path: '/events', limit: 'events', body: jsonBody, anyOrigin: true }),
  route({
    path: '/batches',
    limit: 'events',
    cost: 'body',
    body: jsonBody,
    handle: async (request: ApiRequest): Promise<HandlerResult> => {
      if (request.query.fail !== undefined) throw invalidField('events', 'must be a list')
      await request.consume(Number(request.body.bytes.toString()))
      if (request.query.late === 'format') throw invalidFormat('body is not valid JSON')
      if (request.query.late === 'log') throw unavailable('the log is away')
      if (request.query.late === 'field') throw invalidField('events', 'holds no valid event')
      return { status: 200 }
    },
  }),
  route({ path: '/queries', method: 'GET', limit: 'queries', scope: 'stats:read' }),
  route({ path: '/things', limit: 'admin', body: jsonBody, idempotent: true }),
  route({ path: '/others', limit: 'admin', body: jsonBody, idempotent: true }),
  route({ path: '/optional', limit: 'admin', body: { ...jsonBody, optional: true }, idempotent: true }),
  { method: 'GET', path: '/public', scope: 'public', handle: () => Promise.resolve({ status: 200 }) },
]

beforeAll(async () => {
  const captured = capturedLogger()
  redis = openRedis('memory:', captured)
  const keys = keysInMemory({
    [key]: { keyId: 'key_default', scopes: ['events:write'] },
    [unlimitedKey]: { keyId: 'key_admin', scopes: ['admin'], rateLimits: { admin_per_minute: 10_000 } },
    [fullKey]: { keyId: 'key_full', scopes: ['admin'] },
    [restrictedKey]: { keyId: 'key_admin', scopes: ['admin'], siteIds: ['a'] },
    ...Object.fromEntries(
      limited.map((each, n) => [each, { keyId: `key_limited_${n}`, scopes: ['admin'] as Scope[], rateLimits: limits }]),
    ),
  })
  service = await startTestService({ routes }, { ...redis, keys }, captured, {
    SLUICE_CORS_ORIGINS: ['https://intranet.example'],
  })
})

afterAll(async () => {
  await service.stop()
  await redis.close()
})

test('the end of a window is by the clock of the responses, also where the clock of the machine is 90 minutes ahead', async () => {
  const now = (): number => Date.now() - 90 * 60_000
  const keys = keysInMemory({ [key]: { keyId: 'key_late', scopes: ['admin'] } })
  const captured = capturedLogger()
  const corrected = await startTestService({ routes }, { ...redis, keys }, captured, { clock: { ...exactClock, now } })
  const response = await fetch(`${corrected.url}/queries`, { headers: { Authorization: `Bearer ${key}` } })
  const { timestamp } = (await response.json()) as { timestamp: number }
  const untilReset = Number(response.headers.get('x-ratelimit-reset')) * 1000 - timestamp
  expect(untilReset).toBeGreaterThan(50_000)
  expect(untilReset).toBeLessThanOrEqual(61_000)
  await corrected.stop()
})

interface RequestParts {
  method?: string
  key?: string
  body?: string
  headers?: Record<string, string>
}

async function sendRequest(path: string, { method = 'POST', key: usedKey, body, headers = {} }: RequestParts = {}) {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: {
      ...(usedKey === undefined ? {} : { Authorization: `Bearer ${usedKey}` }),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    remaining: response.headers.get('x-ratelimit-remaining'),
    body: (text === '' ? {} : JSON.parse(text)) as { error?: string; data?: unknown; timestamp?: number },
  }
}

describe('rate limits', () => {
  test('are those of the key, or else the defaults of the limit class', async () => {
    const [ownKey = ''] = limited
    for (const [path, method, limit, defaultLimit] of [
      ['/events', 'POST', '5', '10000'],
      ['/queries', 'GET', '3', '1000'],
      ['/things', 'POST', '2', '100'],
    ] as const) {
      const body = method === 'POST' ? { body: '1' } : {}
      const response = await sendRequest(path, { method, key: ownKey, ...body })
      expect(response.headers.get('x-ratelimit-limit')).toBe(limit)
      expect(response.remaining).toBe(String(Number(limit) - 1))
      expect((await sendRequest(path, { method, key, ...body })).headers.get('x-ratelimit-limit')).toBe(defaultLimit)
    }
  })

  test('answer a request beyond the limit with 429 and the seconds to wait, and do not count it', async () => {
    const [, ownKey = ''] = limited
    const before = Date.now()
    for (const left of ['2', '1', '0'])
      expect((await sendRequest('/queries', { method: 'GET', key: ownKey })).remaining).toBe(left)
    for (let n = 0; n < 3; n++) {
      const { status, headers, remaining, body } = await sendRequest('/queries', { method: 'GET', key: ownKey })
      const seconds = Number(headers.get('retry-after'))
      expect({ status, remaining }).toStrictEqual({ status: 429, remaining: '0' })
      expect(body.error).toBe(`Rate limit exceeded. Retry after ${seconds} seconds.`)
      expect(seconds).toBeGreaterThan(50)
      expect(seconds).toBeLessThanOrEqual(60)
      const reset = Number(headers.get('x-ratelimit-reset'))
      expect(reset).toBeGreaterThanOrEqual(Math.floor(before / 1000) + 60)
      expect(reset).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000) + 60)
    }
    const scrape = await (await fetch(`${service.metricsUrl}/metrics`)).text()
    expect(scrape).toMatch(/^sluice_rate_limited_total\{class="queries"\} [3-9]/m)
    // The other limit classes are counted separately.
    expect((await sendRequest('/events', { key: ownKey, body: '1' })).status).toBe(200)
  })

  test('count the cost of a body in full or not at all, and answer a cost above the limit with 413', async () => {
    const [, , ownKey = ''] = limited
    expect(await sendRequest('/batches', { key: ownKey, body: '3' })).toMatchObject({ status: 200, remaining: '2' })
    expect(await sendRequest('/batches', { key: ownKey, body: '3' })).toMatchObject({ status: 429, remaining: '2' })
    const { status, remaining, body } = await sendRequest('/batches', { key: ownKey, body: '6' })
    expect({ status, remaining }).toStrictEqual({ status: 413, remaining: '2' })
    expect(body.error).toBe('The request holds 6 events, and the key may send 5 in 60 seconds: send smaller batches')
    expect(await sendRequest('/batches', { key: ownKey, body: '2' })).toMatchObject({ status: 200, remaining: '0' })
    // The body is not read: the limit is exhausted.
    expect(await sendRequest('/batches', { key: ownKey, body: 'x'.repeat(1000) })).toMatchObject({ status: 429 })
  })

  test('count an unreadable body as 1 if the cost depends on the body', async () => {
    const ownKey = limited[6]
    expect(await sendRequest('/batches?fail=1', { ...(ownKey && { key: ownKey }), body: '1' })).toMatchObject({
      status: 400,
      remaining: '4',
    })
  })

  test('count a body that turns out to be unreadable as 1, and one whose events are invalid as these events', async () => {
    const ownKey = limited[7] ?? ''
    expect(await sendRequest('/batches?late=format', { key: ownKey, body: '3' })).toMatchObject({
      status: 400,
      remaining: '4',
    })
    expect(await sendRequest('/batches?late=field', { key: ownKey, body: '3' })).toMatchObject({
      status: 400,
      remaining: '1',
    })
  })

  test('do not count a request that is too large or that another limit refuses, and count other failed requests', async () => {
    const [, , , ownKey = ''] = limited
    const refusedByAnother = await sendRequest('/events?fail=other-limit', { key: ownKey, body: '1' })
    expect(refusedByAnother).toMatchObject({ status: 429, remaining: '5' })
    expect(refusedByAnother.headers.get('retry-after')).toBe('10')
    expect(await sendRequest('/events', { key: ownKey, body: 'x'.repeat(101) })).toMatchObject({
      status: 413,
      remaining: '5',
    })
    expect(await sendRequest('/events?fail=1', { key: ownKey, body: '1' })).toMatchObject({
      status: 400,
      remaining: '4',
    })
    const text = { key: ownKey, body: '1', headers: { 'Content-Type': 'text/html' } }
    expect(await sendRequest('/events', text)).toMatchObject({ status: 415, remaining: '3' })
    expect(await sendRequest('/batches', text)).toMatchObject({ status: 415, remaining: '3' })
  })

  test('do not count events that are refused with 503, but other requests', async () => {
    const ownKey = limited[8] ?? ''
    expect(await sendRequest('/events?fail=log', { key: ownKey, body: '1' })).toMatchObject({
      status: 503,
      remaining: '5',
    })
    for (let n = 0; n < 3; n++) {
      expect(await sendRequest('/batches?late=log', { key: ownKey, body: '4' })).toMatchObject({
        status: 503,
        remaining: '5',
      })
    }
    expect(await sendRequest('/batches', { key: ownKey, body: '4' })).toMatchObject({ status: 200, remaining: '1' })
    expect(await sendRequest('/queries?fail=log', { method: 'GET', key: ownKey })).toMatchObject({
      status: 503,
      remaining: '2',
    })
  })

  test('are checked after the credential and before the scope', async () => {
    expect(await sendRequest('/queries', { method: 'GET', key })).toMatchObject({ status: 403, remaining: '998' })
    expect(await sendRequest('/queries', { method: 'GET', key: 'wrong' })).toMatchObject({
      status: 401,
      remaining: null,
    })
    expect(await sendRequest('/public', { method: 'GET' })).toMatchObject({ status: 200, remaining: null })
  })
})

describe('sessions', () => {
  const open = async (): Promise<string> => {
    const token = randomUUID()
    await redis.sessions.create(hashToken(token), { keyHash: hashKey(unlimitedKey) })
    return token
  }

  test('have the rights of their key and count against its limits', async () => {
    const Cookie = `session=${await open()}`
    const { status, headers } = await sendRequest('/things', { body: '1', headers: { Cookie } })
    expect(status).toBe(200)
    expect(headers.get('x-ratelimit-limit')).toBe('10000')
    expect((await sendRequest('/things', { body: '1', headers: { Cookie: 'session=other' } })).status).toBe(401)
  })

  test('reject unsafe methods from pages of another site', async () => {
    const Cookie = `session=${await open()}`
    const foreign = { Cookie, Origin: 'https://evil.example' }
    const { status, body } = await sendRequest('/things', { body: '1', headers: foreign })
    expect(status).toBe(403)
    expect(body.error).toBe('Cross-site request refused')
    expect((await sendRequest('/queries', { method: 'GET', headers: foreign })).status).toBe(200)
    expect((await sendRequest('/things', { body: '1', headers: { Cookie, Origin: service.url } })).status).toBe(200)
    // A browser does not send a key by itself, so a request with a key is accepted.
    expect((await sendRequest('/things', { body: '1', key: unlimitedKey, headers: foreign })).status).toBe(200)
  })
})

describe('pages of other origins', () => {
  const Origin = 'https://shop.example'
  const Intranet = 'https://intranet.example'

  test('may call routes with `anyOrigin` and read their headers, but not with cookies', async () => {
    const headers = { Origin, 'Access-Control-Request-Method': 'POST' }
    const preflight = await sendRequest('/events', { method: 'OPTIONS', headers })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
    expect(preflight.headers.get('access-control-allow-methods')).toBe('POST')
    expect(preflight.headers.get('access-control-allow-headers')).toContain('Authorization')
    for (const usedKey of [key, 'wrong']) {
      const answer = await sendRequest('/events', { key: usedKey, body: '1', headers: { Origin } })
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      expect(answer.headers.get('access-control-expose-headers')).toContain('Retry-After')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('may call other routes only if their origin is configured', async () => {
    const preflight = (origin: string, requestedMethod = 'GET') =>
      sendRequest('/queries', {
        method: 'OPTIONS',
        headers: { Origin: origin, 'Access-Control-Request-Method': requestedMethod },
      })
    expect((await preflight(Origin)).status).toBe(405)
    const allowed = await preflight(Intranet)
    expect(allowed.status).toBe(204)
    expect(allowed.headers.get('access-control-allow-origin')).toBe(Intranet)
    expect((await preflight(Intranet, 'HEAD')).status).toBe(204)
    expect((await preflight(Intranet, 'PUT')).status).toBe(405)

    const answer = (origin: string) =>
      sendRequest('/queries', { method: 'GET', key: unlimitedKey, headers: { Origin: origin } })
    const readable = await answer(Intranet)
    expect(readable.headers.get('access-control-allow-origin')).toBe(Intranet)
    // Headers that a page needs to save a download and to resume it.
    const exposed = readable.headers.get('access-control-expose-headers')?.split(', ')
    const ofFiles = ['Content-Disposition', 'ETag', 'Content-Range', 'Accept-Ranges', 'Idempotency-Replayed']
    expect(exposed).toEqual(expect.arrayContaining(['X-RateLimit-Limit', ...ofFiles]))
    const sendable = allowed.headers.get('access-control-allow-headers')?.split(', ')
    const ofRanges = ['Range', 'If-Range', 'If-Match', 'If-None-Match']
    expect(sendable).toEqual(expect.arrayContaining(['Authorization', ...ofRanges]))
    const other = await answer(Origin)
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
    expect(other.headers.get('vary')).toBe('Origin')
  })

  test.each([
    ['405 of a route with `anyOrigin`', 'PUT', '/events', 405, Origin, '*'],
    ['404 below a route with `anyOrigin`', 'POST', '/events/unknown', 404, Origin, '*'],
    ['405 of another route, from a configured origin', 'PUT', '/queries', 405, Intranet, Intranet],
    ['404 of another path, from a configured origin', 'GET', '/unknown', 404, Intranet, Intranet],
    ['404 of a path that only begins alike, from a configured origin', 'GET', '/eventsx', 404, Intranet, Intranet],
  ])('may read the %s', async (_, method, path, status, origin, allowed) => {
    const answer = await sendRequest(path, { method, headers: { Origin: origin } })
    expect(answer.status).toBe(status)
    expect(answer.headers.get('access-control-allow-origin')).toBe(allowed)
    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Request-Id')
  })

  test.each([
    ['405', 'PUT', '/queries', 405],
    ['404', 'GET', '/unknown', 404],
  ])('may not read the %s of other routes unless their origin is configured', async (_, method, path, status) => {
    const answer = await sendRequest(path, { method, headers: { Origin } })
    expect(answer.status).toBe(status)
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect(answer.headers.get('vary')).toBe('Origin')
  })

  test('get 405 for an OPTIONS request without Origin and Access-Control-Request-Method', async () => {
    const { status, headers } = await sendRequest('/events', { method: 'OPTIONS' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe('POST')
  })
})

describe('Idempotency-Key', () => {
  const post = (name: string, { path = '/things', body = '{}', key: usedKey = unlimitedKey } = {}) =>
    sendRequest(path, { key: usedKey, body, headers: { 'Idempotency-Key': name } })

  test('returns the first response to a repeated body without running the handler again', async () => {
    const first = await post('a')
    const callsBefore = calls
    const second = await post('a')
    expect(second.body).toStrictEqual(first.body)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    expect(calls).toBe(callsBefore)
  })

  test('is 409 with another body, and a new request on another path, for another key or without the header', async () => {
    const first = await post('b')
    expect(await post('b', { body: '{"a":1}' })).toMatchObject({ status: 409 })
    for (const other of [
      await post('b', { path: '/others' }),
      await post('b', { key: limited[5] ?? '' }),
      await sendRequest('/things', { key: unlimitedKey, body: '{}' }),
    ]) {
      expect(other.status).toBe(200)
      expect(other.body.data).not.toStrictEqual(first.body.data)
    }
  })

  test('takes an empty body for the same as {}', async () => {
    const first = await post('d', { path: '/optional', body: '' })
    expect(await post('d', { path: '/optional' })).toMatchObject({ status: 200, body: first.body })
  })

  test('runs one of several concurrent requests, and the others get 409 or its response', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => post('c')))
    const successful = answers.filter(({ status }) => status === 200)
    expect(new Set(successful.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true)
  })

  test('does not return an earlier response to a key that has lost rights since', async () => {
    const first = await post('e')
    expect((await post('e', { key: restrictedKey })).body.data).not.toStrictEqual(first.body.data)
  })

  test('does not store a failed request', async () => {
    expect((await post('d', { path: '/things?fail=1' })).status).toBe(400)
    expect((await post('d')).status).toBe(200)
  })

  test('is 429 without work when the stored responses of the key take too many bytes, and only requests with it are', async () => {
    const first = await post('f', { key: fullKey })
    const data = 'x'.repeat(idempotencyLimits.storedBytesMax)
    await redis.idempotency.complete('another response', 'f', { status: 200, data, timestamp: 1 }, 'key_full')
    const callsBefore = calls
    const refused = await post('g', { key: fullKey })
    const retryAfter = Number(refused.headers.get('retry-after'))
    expect(refused).toMatchObject({
      status: 429,
      remaining: first.remaining,
      body: { error: `Rate limit exceeded. Retry after ${retryAfter} seconds.` },
    })
    expect(retryAfter).toBeGreaterThan(86_300)
    expect(retryAfter).toBeLessThanOrEqual(86_400)
    expect(calls).toBe(callsBefore)
    expect((await post('f', { key: fullKey })).body).toStrictEqual(first.body)
    expect((await sendRequest('/things', { key: fullKey, body: '{}' })).status).toBe(200)
    expect((await post('g', { key: unlimitedKey })).status).toBe(200)
  })

  test('must have 1 to 255 characters', async () => {
    expect((await post('x'.repeat(255))).status).toBe(200)
    const { status, body } = await post('x'.repeat(256))
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid field: Idempotency-Key must have 1 to 255 characters')
  })
})
