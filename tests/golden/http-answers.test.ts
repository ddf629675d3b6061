import { type IncomingHttpHeaders, request as httpRequest } from 'node:http'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, test } from '@jest/globals'
import { generateKey, hashKey } from '@sluice/access/api-key'
import { operations } from '@sluice/api/operations'
import { hashToken } from '@sluice/http/authenticate'
import type { ApiRequest, Route } from '@sluice/http/route'
import { openRedis } from '@sluice/redis/open'
import { AppError, notFound, unavailable } from '@sluice/runtime/errors'
import { capturedLogger } from '../support/captured-logger.ts'
import { connectRaw, keysInMemory, startTestService, type TestService } from '../support/test-service.ts'
import { expectGolden, joinBlocks } from './golden.ts'

const key = generateKey('prod')
const reader = generateKey('prod')
const writer = generateKey('prod')
const limited = generateKey('prod')
const revoked = generateKey('prod')
const expired = generateKey('prod')

/** Failures that a handler throws when the parameter `behaviour` of the query names them. */
const behaviours: Readonly<Record<string, () => Promise<never>>> = {
  'not-found': () => Promise.reject(notFound('Site')),
  unavailable: () => Promise.reject(unavailable('an engine is unavailable')),
  failure: () => Promise.reject(new TypeError('x is undefined')),
  data: () =>
    Promise.reject(new AppError('invalid_field', { message: 'Invalid field: events', data: { rejected: 1 } })),
}

const routes = Object.values(operations).map(
  (operation): Route =>
    ({
      ...operation,
      handle: async (request: ApiRequest) => {
        const { query, params, body, receivedAt } = request
        await behaviours[String(query.behaviour)]?.()
        if (query.spend !== undefined) await request.consume(Number(query.spend))
        if (query.empty !== undefined) return { status: operation.response.status }
        const data = { params, query, type: body.type, bytes: body.bytes.length, received: receivedAt > 0 }
        return { status: operation.response.status, data, headers: { 'X-Own': 'a' } }
      },
    }) as Route,
)

let service: TestService
let redis: ReturnType<typeof openRedis>
/** Names of the engines that are unavailable. */
const away = new Set<string>()

function rejectWhileAway(engine: string): Promise<void> {
  return away.has(engine) ? Promise.reject(unavailable(`${engine} is unavailable`)) : Promise.resolve()
}

beforeEach(async () => {
  const captured = capturedLogger()
  redis = openRedis('memory:', captured)
  const keys = keysInMemory({
    [key]: { scopes: ['admin'] },
    [reader]: { scopes: ['stats:read'] },
    [writer]: { scopes: ['events:write'] },
    [limited]: {
      scopes: ['admin'],
      rateLimits: { queries_per_minute: 1, admin_per_minute: 1, events_per_minute: 3 },
    },
    [revoked]: { scopes: ['admin'], revokedAt: 0 },
    [expired]: { scopes: ['admin'], expiresAt: 0 },
  })
  service = await startTestService(
    {
      routes,
      pages: [{ path: '/page', handle: (_request, response) => void response.end('page') }],
      checks: [
        {
          name: 'log',
          required: true,
          check: () => rejectWhileAway('log'),
        },
        { name: 'redis', required: false, check: () => rejectWhileAway('redis') },
      ],
      warnings: () => ['the log keeps one copy'],
    },
    { ...redis, keys },
    captured,
    { SLUICE_CORS_ORIGINS: ['https://app.example'], SLUICE_TRUSTED_PROXIES: ['loopback'] },
  )
})

afterEach(async () => {
  away.clear()
  await service.stop()
  await redis.close()
})

interface GoldenRequest {
  method?: string
  key?: string
  headers?: Readonly<Record<string, string>>
  body?: string | Buffer
}

/** Sends a request as it is, without the headers that fetch adds. */
function send(
  path: string,
  { method = 'GET', key: asKey = key, headers = {}, body }: GoldenRequest,
): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      {
        port: service.port,
        host: '127.0.0.1',
        method,
        path,
        headers: {
          ...(asKey === '' ? {} : { Authorization: `Bearer ${asKey}` }),
          'X-Request-Id': 'golden',
          ...(body === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
          ...headers,
        },
        agent: false,
      },
      (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('end', () => {
          const { statusCode: status = 0, headers: received } = incoming
          resolve({ status, headers: received, text: Buffer.concat(chunks).toString('utf8') })
        })
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** The text with words in place of times and of values derived from times. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(/"timestamp":\d{13}/g, '"timestamp":<now>')
    .replaceAll(/x-ratelimit-reset: \d+/g, 'x-ratelimit-reset: <seconds>')
    .replaceAll(/retry-after: [3-6]\d$/gm, 'retry-after: <seconds>')
    .replaceAll(/Retry after \d+ seconds/g, 'Retry after <seconds> seconds')
    .replaceAll(/X-Request-Id: [0-9a-f-]{36}/g, 'X-Request-Id: <uuid>')
    .replaceAll(/^date: .*\n/gim, '')
}

type Row = readonly [heading: string, path: string, request?: GoldenRequest]

/** Headers of nearly every response: a golden file contains them only if they differ or are missing. */
const commonHeaders: Readonly<Record<string, string>> = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-request-id': 'golden',
  connection: 'close',
  'access-control-expose-headers':
    'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id',
}

function headerLines(headers: IncomingHttpHeaders): string[] {
  const own = Object.entries(headers).filter(([name, value]) => commonHeaders[name] !== value)
  const missing = Object.keys(commonHeaders).filter((name) => !(name in headers))
  return [...own.map(([name, value]) => `${name}: ${String(value)}`), ...missing.map((name) => `no ${name}`)]
}

/** Sends the requests one after the other, because some change the responses to the next. */
async function expectResponses(name: string, rows: readonly Row[]): Promise<void> {
  const blocks = []
  for (const [heading, path, request = {}] of rows) {
    const { status, headers, text } = await send(path, request)
    blocks.push({ heading, text: withoutTimes([String(status), ...headerLines(headers), '', text].join('\n')) })
  }
  expectGolden(name, joinBlocks(blocks))
}

const collect = '/collect'
const stats = '/api/v1/stats'
const event = '{"site_id":"a"}'

test('credentials, limits and scopes get the responses of the golden file', async () => {
  const cookie = (value: string) => ({ key: '', headers: { Cookie: `session=${encodeURIComponent(value)}` } })
  const session = 'a token'
  await redis.sessions.create(hashToken(session), { keyHash: hashKey(key) })
  await redis.sessions.create(hashToken('another token'), { keyHash: hashKey(revoked) })
  await expectResponses('http/credentials.txt', [
    ['a good key', `${stats}?a=1&a=2&b=%C3%BC`],
    ['a key in the query', `${stats}?api_key=${key}`, { key: '' }],
    ['no credential', stats, { key: '' }],
    ['no key', stats, { key: 'nonsense' }],
    ['an unknown key', stats, { key: 'svc_prod_00000000000000000000000000000000000' }],
    ['a revoked key', stats, { key: revoked }],
    ['an expired key', stats, { key: expired }],
    ['another scheme', stats, { key: '', headers: { Authorization: 'Basic YTpi' } }],
    ['an unknown session', stats, cookie('unknown')],
    ['a session', stats, cookie(session)],
    ['a session of a revoked key', stats, cookie('another token')],
    [
      'a session on a foreign page',
      collect,
      {
        key: '',
        method: 'POST',
        body: event,
        headers: { Cookie: `session=${encodeURIComponent(session)}`, 'Sec-Fetch-Site': 'cross-site' },
      },
    ],
    ['a scope that is missing', '/api/v1/settings/keys', { key: reader }],
    ['one of two scopes', '/api/v1/analytics/retention', { key: reader }],
    ['two scopes that are missing', '/api/v1/analytics/retention', { key: writer }],
    ['a write without its scope', collect, { key: reader, method: 'POST', body: event }],
    ['a limit of one, first', stats, { key: limited }],
    ['a limit of one, second', stats, { key: limited }],
    ['a cost that does not fit', '/collect/batch?spend=4', { key: limited, method: 'POST', body: event }],
    ['a cost that fits', '/collect/batch?spend=3', { key: limited, method: 'POST', body: event }],
    ['a limit that is used up', '/collect/batch?spend=1', { key: limited, method: 'POST', body: event }],
    [
      'a foreign page logs in',
      '/api/v1/session',
      {
        key: '',
        method: 'POST',
        body: '{}',
        headers: { 'Sec-Fetch-Site': 'cross-site' },
      },
    ],
    [
      'a page of another host logs in',
      '/api/v1/session',
      {
        key: '',
        method: 'POST',
        body: '{}',
        headers: { Origin: 'https://other.example' },
      },
    ],
  ])
})

test('methods, paths and pages get the responses of the golden file', async () => {
  const paths = [...new Set(Object.values(operations).map(({ path }) => path))]
  await expectResponses('http/paths.txt', [
    ...paths.map((path): Row => [`PATCH ${path}`, path.replaceAll(/:\w+/g, 'id'), { method: 'PATCH' }]),
    ['HEAD', stats, { method: 'HEAD' }],
    ['a path that is not there', '/api/v1/nothing'],
    ['another case', '/API/v1/stats'],
    ['a slash at the end', `${stats}/`],
    ['a path that is no percent-encoding', '/api/v1/sites/%E0%A4'],
    ['a NUL in a path', '/api/v1/sites/a%00b'],
    ['parts of a path', '/api/v1/sites/%C3%BC%2F'],
    ['a page', '/page'],
    ['a page with another method', '/page', { method: 'POST' }],
  ])
})

test('failures of handlers become the responses of the golden file', async () => {
  await expectResponses('http/failures.txt', [
    ...Object.keys(behaviours).map((name): Row => [name, `${stats}?behaviour=${name}`]),
    ['an answer without data', `${stats}?empty`],
    ['a failure at a route of any origin', `${collect}?behaviour=unavailable`, { method: 'POST', body: event }],
  ])
})

const bodyOf = (body: string | Buffer, headers: Readonly<Record<string, string>> = {}): GoldenRequest => ({
  method: 'POST',
  body,
  headers,
})
const encoded = (encoding: string, body: string | Buffer): GoldenRequest =>
  bodyOf(body, { 'Content-Encoding': encoding })
const large = JSON.stringify({ a: 'x'.repeat(40_000) })

test('bodies get the responses of the golden file', async () => {
  await expectResponses('http/bodies.txt', [
    ['JSON', collect, bodyOf(event)],
    ['JSON as text', collect, bodyOf(event, { 'Content-Type': 'Text/Plain; charset="UTF-8"' })],
    ['no media type', collect, { method: 'POST' }],
    ['another media type', collect, bodyOf(event, { 'Content-Type': 'application/xml' })],
    ['another media type of a batch', '/collect/batch', bodyOf(event, { 'Content-Type': 'text/csv' })],
    ['another media type of a session', '/api/v1/session', bodyOf(event, { 'Content-Type': 'text/plain' })],
    ['another charset', collect, bodyOf(event, { 'Content-Type': 'application/json; charset=latin1' })],
    ['another encoding', collect, encoded('compress', event)],
    ['two encodings', collect, encoded('gzip, br', event)],
    ['identity', collect, encoded('identity', event)],
    ['too large a body', collect, bodyOf(large)],
    ['too large a body of a session', '/api/v1/session', bodyOf('x'.repeat(1_025))],
    ['too large a body after decompression', collect, encoded('gzip', gzipSync(large))],
    ...Object.entries({
      gzip: gzipSync(event),
      deflate: deflateSync(event),
      br: brotliCompressSync(event),
      zstd: zstdCompressSync(event),
    }).flatMap(([name, bytes]): Row[] => [
      [name, collect, encoded(name, bytes)],
      [`${name} that is broken`, collect, encoded(name, 'no such thing')],
      [`${name} that ends early`, collect, encoded(name, bytes.subarray(0, bytes.length - 3))],
      [`${name} that goes on after its end`, collect, encoded(name, Buffer.concat([bytes, Buffer.from('more')]))],
    ]),
    ['x-gzip', collect, encoded('x-gzip', gzipSync(event))],
    ['raw deflate', collect, encoded('deflate', deflateRawSync(event))],
    ['two members of gzip', collect, encoded('gzip', Buffer.concat([gzipSync(event), gzipSync(event)]))],
  ])
})

test('origins, proxies and preflights get the responses of the golden file', async () => {
  const preflight = (method: string, origin = 'https://app.example'): GoldenRequest => ({
    method: 'OPTIONS',
    key: '',
    headers: { Origin: origin, 'Access-Control-Request-Method': method },
  })
  await expectResponses('http/origins.txt', [
    ['a known origin', stats, { headers: { Origin: 'https://app.example' } }],
    ['an unknown origin', stats, { headers: { Origin: 'https://other.example' } }],
    ['any origin of a collection', collect, { ...bodyOf(event, { Origin: 'https://other.example' }) }],
    ['HTTPS at a trusted proxy', stats, { headers: { 'X-Forwarded-Proto': 'https' } }],
    ['a preflight of a known origin', stats, preflight('GET')],
    ['a preflight of an unknown origin', stats, preflight('GET', 'https://other.example')],
    ['a preflight of a collection', collect, preflight('POST', 'https://other.example')],
    ['a preflight of a path with several methods', '/api/v1/sites/a', preflight('PUT')],
    ['a preflight of another method', stats, preflight('DELETE')],
    ['OPTIONS without an origin', stats, { method: 'OPTIONS' }],
  ])
})

test('repeated requests with an Idempotency-Key get the responses of the golden file', async () => {
  const path = '/api/v1/sites'
  const once = (id: string, body = event): GoldenRequest => bodyOf(body, { 'Idempotency-Key': id })
  await expectResponses('http/idempotency.txt', [
    ['the first', path, once('one')],
    ['the same again', path, once('one')],
    ['another body', path, once('one', '{"site_id":"b"}')],
    ['an empty key', path, once('')],
    ['too long a key', path, once('x'.repeat(256))],
    ['a failure', `${path}?behaviour=not-found`, once('two')],
    ['the same after a failure', path, once('two')],
    ['an operation that takes none', collect, once('one')],
  ])
})

test.each([
  ['while all engines answer', []],
  ['while an engine is unavailable that can be done without', ['redis']],
  ['while an engine is unavailable', ['log', 'redis']],
])('probes get the responses of the golden file %s', async (when, engines) => {
  for (const engine of engines) away.add(engine)
  await expectResponses(`http/probes-${when.replaceAll(' ', '-')}.txt`, [
    ['alive', '/healthz', { key: '' }],
    ['ready', '/readyz', { key: '' }],
    ['ready, with another method', '/readyz', { key: '', method: 'DELETE' }],
  ])
})

test('bytes that are no request get the responses of the golden file', async () => {
  const rows = {
    'no request line': 'nonsense\r\n\r\n',
    'a header without a colon': 'GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n',
    'no host': 'GET / HTTP/1.1\r\n\r\n',
    'too many bytes of headers': `GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
    'two lengths': 'POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na',
  }
  const blocks = []
  for (const [heading, bytes] of Object.entries(rows)) {
    const connection = await connectRaw(service.port)
    connection.send(bytes)
    blocks.push({ heading, text: withoutTimes((await connection.closed).replaceAll('\r\n', '\n')) })
  }
  expectGolden('http/no-requests.txt', joinBlocks(blocks))
})
