import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/contracts/api-key'
import { invalidField } from '@sluice/contracts/errors'
import type { LimitClass, Scope } from '@sluice/contracts/scopes'
import { openRedis, type Redis } from '@sluice/redis/open'
import { capturedLogger } from '@sluice/runtime/testing'
import { hashToken } from './authenticate.ts'
import type { Answer, ApiRequest, Route } from './route.ts'
import { keysInMemory, startTestService, type TestService } from './testing.ts'

const key = generateKey('prod')
const unlimitedKey = generateKey('prod')
/** The same key, as it is after it was bound to a site. */
const boundSince = generateKey('prod')
/** A key with limits of its own for each test, so that none spends another's. */
const limited = Array.from({ length: 12 }, () => generateKey('prod'))
const limits = { events_per_minute: 5, queries_per_minute: 3, admin_per_minute: 2 }

let redis: Redis
let service: TestService
let calls = 0

const scope: Scope = 'admin'
const route = (parts: Partial<Route> & { path: string; limit: LimitClass }): Route =>
  ({ method: 'POST', scope, handle, ...parts }) as Route

function handle(request: ApiRequest): Promise<Answer> {
  calls++
  if (request.query.fail !== undefined) throw invalidField('fail', 'was asked for')
  return Promise.resolve({ status: 200, data: { call: calls } })
}

const jsonBody = { types: ['application/json'], maxBytes: 100 }

const routes: Route[] = [
  route({ path: '/events', limit: 'events', body: jsonBody, anyOrigin: true }),
  route({
    path: '/batches',
    limit: 'events',
    cost: 'body',
    body: jsonBody,
    handle: async (request: ApiRequest): Promise<Answer> => {
      if (request.query.fail !== undefined) throw invalidField('events', 'must be a list')
      await request.spend(Number(request.body.bytes.toString()))
      return { status: 200 }
    },
  }),
  route({ path: '/queries', method: 'GET', limit: 'queries', scope: 'stats:read' }),
  route({ path: '/things', limit: 'admin', body: jsonBody, idempotent: true }),
  route({ path: '/others', limit: 'admin', body: jsonBody, idempotent: true }),
  { method: 'GET', path: '/public', scope: 'public', handle: () => Promise.resolve({ status: 200 }) },
]

beforeAll(async () => {
  const captured = capturedLogger()
  redis = openRedis('memory:', captured)
  const keys = keysInMemory({
    [key]: { keyId: 'key_default', scopes: ['events:write'] },
    [unlimitedKey]: { keyId: 'key_admin', scopes: ['admin'], rateLimits: { admin_per_minute: 10_000 } },
    [boundSince]: { keyId: 'key_admin', scopes: ['admin'], siteIds: ['a'] },
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

interface Asked {
  method?: string
  key?: string
  body?: string
  headers?: Record<string, string>
}

async function ask(path: string, { method = 'POST', key: given, body, headers = {} }: Asked = {}) {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: {
      ...(given === undefined ? {} : { Authorization: `Bearer ${given}` }),
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

describe('limits', () => {
  test('are the key’s own, or the defaults of the route’s class', async () => {
    const [own = ''] = limited
    for (const [path, method, limit, byDefault] of [
      ['/events', 'POST', '5', '10000'],
      ['/queries', 'GET', '3', '1000'],
      ['/things', 'POST', '2', '100'],
    ] as const) {
      const body = method === 'POST' ? { body: '1' } : {}
      const mine = await ask(path, { method, key: own, ...body })
      expect(mine.headers.get('x-ratelimit-limit')).toBe(limit)
      expect(mine.remaining).toBe(String(Number(limit) - 1))
      expect((await ask(path, { method, key, ...body })).headers.get('x-ratelimit-limit')).toBe(byDefault)
    }
  })

  test('a request too many is 429 with the seconds to wait, and costs nothing', async () => {
    const [, own = ''] = limited
    const before = Date.now()
    for (const left of ['2', '1', '0'])
      expect((await ask('/queries', { method: 'GET', key: own })).remaining).toBe(left)
    for (let n = 0; n < 3; n++) {
      const { status, headers, remaining, body } = await ask('/queries', { method: 'GET', key: own })
      const seconds = Number(headers.get('retry-after'))
      expect({ status, remaining }).toStrictEqual({ status: 429, remaining: '0' })
      expect(body.error).toBe(`Rate limit exceeded. Retry after ${seconds} seconds.`)
      expect(seconds).toBeGreaterThan(50)
      expect(seconds).toBeLessThanOrEqual(60)
      const reset = Number(headers.get('x-ratelimit-reset'))
      expect(reset).toBeGreaterThanOrEqual(Math.floor(before / 1000) + 60)
      expect(reset).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000) + 60)
    }
    // The other classes have counts of their own.
    expect((await ask('/events', { key: own, body: '1' })).status).toBe(200)
  })

  test('a body’s cost is counted whole or not at all; one that never fits is 413', async () => {
    const [, , own = ''] = limited
    expect(await ask('/batches', { key: own, body: '3' })).toMatchObject({ status: 200, remaining: '2' })
    expect(await ask('/batches', { key: own, body: '3' })).toMatchObject({ status: 429, remaining: '2' })
    const { status, remaining, body } = await ask('/batches', { key: own, body: '6' })
    expect({ status, remaining }).toStrictEqual({ status: 413, remaining: '2' })
    expect(body.error).toContain('the key may make 5 in 60 seconds')
    expect(await ask('/batches', { key: own, body: '2' })).toMatchObject({ status: 200, remaining: '0' })
    // Not even read: nothing can fit.
    expect(await ask('/batches', { key: own, body: 'x'.repeat(1000) })).toMatchObject({ status: 429 })
  })

  test('a body that nobody can read costs 1 where its cost is its own', async () => {
    const own = limited[6]
    expect(await ask('/batches?fail=1', { ...(own && { key: own }), body: '1' })).toMatchObject({
      status: 400,
      remaining: '4',
    })
  })

  test('what is refused as too large costs nothing; other failures are requests', async () => {
    const [, , , own = ''] = limited
    expect(await ask('/events', { key: own, body: 'x'.repeat(101) })).toMatchObject({ status: 413, remaining: '5' })
    expect(await ask('/events?fail=1', { key: own, body: '1' })).toMatchObject({ status: 400, remaining: '4' })
    const text = { key: own, body: '1', headers: { 'Content-Type': 'text/html' } }
    expect(await ask('/events', text)).toMatchObject({ status: 415, remaining: '3' })
    expect(await ask('/batches', text)).toMatchObject({ status: 415, remaining: '3' })
  })

  test('come after the credential and before the scope', async () => {
    expect(await ask('/queries', { method: 'GET', key })).toMatchObject({ status: 403, remaining: '998' })
    expect(await ask('/queries', { method: 'GET', key: 'wrong' })).toMatchObject({ status: 401, remaining: null })
    expect(await ask('/public', { method: 'GET' })).toMatchObject({ status: 200, remaining: null })
  })
})

describe('sessions', () => {
  const open = async (): Promise<string> => {
    const token = randomUUID()
    await redis.sessions.create(hashToken(token), { keyHash: hashKey(unlimitedKey) })
    return token
  }

  test('stand for their key, and count against its limits', async () => {
    const Cookie = `session=${await open()}`
    const { status, headers } = await ask('/things', { body: '1', headers: { Cookie } })
    expect(status).toBe(200)
    expect(headers.get('x-ratelimit-limit')).toBe('10000')
    expect((await ask('/things', { body: '1', headers: { Cookie: 'session=other' } })).status).toBe(401)
  })

  test('refuse unsafe methods that a browser says come from elsewhere', async () => {
    const Cookie = `session=${await open()}`
    const foreign = { Cookie, Origin: 'https://evil.example' }
    const { status, body } = await ask('/things', { body: '1', headers: foreign })
    expect(status).toBe(403)
    expect(body.error).toBe('Cross-site request refused')
    expect((await ask('/queries', { method: 'GET', headers: foreign })).status).toBe(200)
    expect((await ask('/things', { body: '1', headers: { Cookie, Origin: service.url } })).status).toBe(200)
    // A key is nobody's by accident.
    expect((await ask('/things', { body: '1', key: unlimitedKey, headers: foreign })).status).toBe(200)
  })
})

describe('pages of other origins', () => {
  const Origin = 'https://shop.example'
  const Intranet = 'https://intranet.example'

  test('may call what is open to all, read its headers, and send no cookies', async () => {
    const headers = { Origin, 'Access-Control-Request-Method': 'POST' }
    const preflight = await ask('/events', { method: 'OPTIONS', headers })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
    expect(preflight.headers.get('access-control-allow-methods')).toBe('POST')
    expect(preflight.headers.get('access-control-allow-headers')).toContain('Authorization')
    for (const given of [key, 'wrong']) {
      const answer = await ask('/events', { key: given, body: '1', headers: { Origin } })
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      expect(answer.headers.get('access-control-expose-headers')).toContain('Retry-After')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })

  test('may not call anything else, unless they are configured', async () => {
    const preflight = (origin: string, asked = 'GET') =>
      ask('/queries', { method: 'OPTIONS', headers: { Origin: origin, 'Access-Control-Request-Method': asked } })
    expect((await preflight(Origin)).status).toBe(405)
    const allowed = await preflight(Intranet)
    expect(allowed.status).toBe(204)
    expect(allowed.headers.get('access-control-allow-origin')).toBe(Intranet)
    expect((await preflight(Intranet, 'PUT')).status).toBe(405)

    const answer = (origin: string) =>
      ask('/queries', { method: 'GET', key: unlimitedKey, headers: { Origin: origin } })
    expect((await answer(Intranet)).headers.get('access-control-allow-origin')).toBe(Intranet)
    const other = await answer(Origin)
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
    expect(other.headers.get('vary')).toBe('Origin')
  })

  test('a question without an origin, or for a method, is no preflight', async () => {
    const { status, headers } = await ask('/events', { method: 'OPTIONS' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe('POST')
  })
})

describe('Idempotency-Key', () => {
  const post = (name: string, { path = '/things', body = '{}', key: given = unlimitedKey } = {}) =>
    ask(path, { key: given, body, headers: { 'Idempotency-Key': name } })

  test('the same body gets the first answer, word for word, and is not carried out again', async () => {
    const first = await post('a')
    const callsBefore = calls
    const second = await post('a')
    expect(second.body).toStrictEqual(first.body)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    expect(calls).toBe(callsBefore)
  })

  test('another body is 409; another path, another key or no header is another request', async () => {
    const first = await post('b')
    expect(await post('b', { body: '{"a":1}' })).toMatchObject({ status: 409 })
    for (const other of [
      await post('b', { path: '/others' }),
      await post('b', { key: limited[5] ?? '' }),
      await ask('/things', { key: unlimitedKey, body: '{}' }),
    ]) {
      expect(other.status).toBe(200)
      expect(other.body.data).not.toStrictEqual(first.body.data)
    }
  })

  test('of two at once one is carried out, the other is 409 or gets its answer', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => post('c')))
    const done = answers.filter(({ status }) => status === 200)
    expect(new Set(done.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true)
  })

  test('a key that lost rights meanwhile does not get its earlier answer', async () => {
    const first = await post('e')
    expect((await post('e', { key: boundSince })).body.data).not.toStrictEqual(first.body.data)
  })

  test('a failure is not kept', async () => {
    expect((await post('d', { path: '/things?fail=1' })).status).toBe(400)
    expect((await post('d')).status).toBe(200)
  })

  test('must be 1 to 255 characters', async () => {
    expect((await post('x'.repeat(255))).status).toBe(200)
    const { status, body } = await post('x'.repeat(256))
    expect(status).toBe(400)
    expect(body.error).toBe('Invalid field: Idempotency-Key must have 1 to 255 characters')
  })
})
