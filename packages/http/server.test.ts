import { afterEach, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { createMetrics } from '@sluice/runtime/metrics'
import { FatalError } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import {
  connectRaw,
  keysInMemory,
  request,
  startTestService,
  type TestService,
} from '../../tests/support/test-service.ts'
import { refusedConnections } from './refused-connections.ts'
import type { HandlerResult, Route } from './route.ts'
import { httpServer } from './server.ts'
import { serverLimits } from './server-limits.ts'

const key = generateKey('prod')
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`

/** A route whose handler returns only after `finish` is called. */
function waitingRoute() {
  const entered = Promise.withResolvers<undefined>()
  const gate = Promise.withResolvers<HandlerResult>()
  const route: Route = {
    method: 'GET',
    path: '/wait',
    scope: 'events:write',
    limit: 'events',
    handle: () => {
      entered.resolve(undefined)
      return gate.promise
    },
  }
  return {
    route,
    entered: entered.promise,
    finish: () => {
      gate.resolve({ status: 200, data: 'finished' })
    },
  }
}

async function isRefused(port: number): Promise<boolean> {
  try {
    const { socket } = await connectRaw(port)
    socket.destroy()
    return false
  } catch {
    return true
  }
}

let service: TestService | undefined

async function start(routes: readonly Route[]): Promise<TestService> {
  service = await startTestService({ routes }, keysInMemory({ [key]: { scopes: ['events:write'] } }))
  return service
}

afterEach(async () => {
  await service?.stop()
})

test('a stop waits for the request in flight, then closes its connection', async () => {
  const { route, entered, finish: finish } = waitingRoute()
  const { port, stop } = await start([route])
  const connection = await connectRaw(port)
  connection.send(get('/wait'))
  await entered

  let stopped = false
  const stopping = stop().then(() => {
    stopped = true
  })
  await waitUntil(() => isRefused(port), 'new connections are refused')
  expect(stopped).toBe(false)

  finish()
  const answer = await connection.closed
  expect(answer).toContain('HTTP/1.1 200 OK')
  expect(answer).toContain('"data":"finished"')
  expect(answer.toLowerCase()).toContain('connection: close')
  await stopping
})

test('a stop closes connections without a request in flight at once', async () => {
  const { port, stop } = await start([])
  const fresh = await connectRaw(port)
  const half = await connectRaw(port)
  half.send('GET /healthz HT')
  const used = await connectRaw(port)
  used.send(get('/healthz'))
  await used.received(/alive/)

  const elapsedMs = startStopwatch()
  await stop()
  expect(elapsedMs()).toBeLessThan(4_000)
  await Promise.all([fresh.closed, half.closed, used.closed])
})

test('a stop lets a slow client receive the rest of its response, then closes the connection', async () => {
  const data = 'x'.repeat(20 * 1024 * 1024)
  const { port, stop } = await start([
    {
      method: 'GET',
      path: '/large',
      scope: 'events:write',
      limit: 'events',
      handle: () => Promise.resolve({ status: 200, data }),
    },
  ])
  const connection = await connectRaw(port)
  connection.send(get('/large'))
  await connection.received(/HTTP\/1\.1 200 OK/)
  connection.socket.pause()
  const elapsedMs = startStopwatch()
  const stopping = stop()
  connection.socket.resume()
  expect((await connection.closed).length).toBeGreaterThan(data.length)
  await stopping
  expect(elapsedMs()).toBeLessThan(4_000)
})

test('a stop closes a connection as soon as the last of its pipelined requests has its response', async () => {
  const { route, entered, finish: finish } = waitingRoute()
  const { port, stop } = await start([route])
  const connection = await connectRaw(port)
  connection.send(get('/wait') + get('/healthz'))
  await entered
  const elapsedMs = startStopwatch()
  const stopping = stop()
  finish()
  expect(await connection.closed).toContain('"data":"finished"')
  await stopping
  expect(elapsedMs()).toBeLessThan(4_000)
})

test('a port that is in use fails the start with a message that names the setting', async () => {
  const { port } = await start([])
  const second = httpServer('http', () => undefined, {
    host: '127.0.0.1',
    port,
    portVariable: 'SLUICE_PORT',
    requestsMs: 0,
  })
  await expect(second.start?.()).rejects.toThrow(
    new FatalError(`Port ${port} on 127.0.0.1 is in use. Stop what uses it, or set SLUICE_PORT.`),
  )
})

test('an address that this machine does not have rejects the start instead of crashing', async () => {
  const server = httpServer('http', () => undefined, {
    host: '192.0.2.1',
    port: 0,
    portVariable: 'SLUICE_PORT',
    requestsMs: 0,
  })
  await expect(server.start?.()).rejects.toThrow('EADDRNOTAVAIL')
})

test('several requests can use one connection', async () => {
  const { port } = await start([])
  const connection = await connectRaw(port)
  for (let n = 1; n <= 3; n++) {
    connection.send(get('/healthz'))
    await connection.received(new RegExp(`(alive[^]*){${n}}`))
  }
  connection.socket.destroy()
})

test('a connection beyond the limit is closed, counted, and logged once a minute', async () => {
  const metrics = createMetrics()
  const { logger, lines } = capturedLogger()
  const server = httpServer('http', (_request, response) => response.end('alive'), {
    host: '127.0.0.1',
    port: 0,
    portVariable: 'SLUICE_PORT',
    requestsMs: 0,
    limits: { ...serverLimits, connectionsMax: 2 },
    onRefused: refusedConnections(metrics, logger),
  })
  await server.start?.()
  try {
    const first = await connectRaw(server.port())
    const second = await connectRaw(server.port())
    for (const each of [first, second]) each.send(get('/'))
    await Promise.all([first.received(/alive/), second.received(/alive/)])
    for (let n = 1; n <= 2; n++) expect(await (await connectRaw(server.port())).closed).toBe('')
    expect(await metrics.getSingleMetricAsString('sluice_http_connections_refused_total')).toMatch(/ 2$/)
    expect(lines()).toEqual([expect.objectContaining({ level: 'warn', msg: expect.stringContaining('refused') })])
  } finally {
    await server.stop?.()
  }
})

test('an idle connection is kept for SLUICE_KEEP_ALIVE_SECONDS', async () => {
  service = await startTestService({}, keysInMemory({}), undefined, { SLUICE_KEEP_ALIVE_SECONDS: 620 })
  expect((await request(`${service.url}/healthz`)).headers.get('Keep-Alive')).toBe('timeout=620')
})

test.each([
  ['no HTTP', 'no HTTP\r\n\r\n'],
  ['a request without Host', 'GET /healthz HTTP/1.1\r\n\r\n'],
])('a request gets its own response before the bytes after it are refused: %s', async (_, bytes) => {
  const { route, entered, finish } = waitingRoute()
  const { port } = await start([route])
  const connection = await connectRaw(port)
  // One chunk, which is parsed before the handler is entered.
  connection.send(get('/wait') + bytes)
  await entered
  connection.send('more\r\n\r\n')
  finish()
  const answer = await connection.closed
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toStrictEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
  expect(answer).toMatch(/"data":"finished"}HTTP\/1\.1 400 [^]*not a valid HTTP request/)
})

test('a request whose own body can not be read is refused at once', async () => {
  const { port } = await start([
    {
      method: 'POST',
      path: '/body',
      scope: 'events:write',
      limit: 'events',
      body: { kind: 'json', maxBytes: 100 },
      handle: () => Promise.resolve({ status: 200 }),
    },
  ])
  const connection = await connectRaw(port)
  connection.send(
    get('/body').replace('GET', 'POST').replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n'),
  )
  expect((await connection.closed).match(/HTTP\/1\.1 \d+/g)).toStrictEqual(['HTTP/1.1 400'])
})

test('HTTP/1.0 requests and absolute URLs are accepted', async () => {
  const { port, url } = await start([])
  const old = await connectRaw(port)
  old.send('GET /healthz HTTP/1.0\r\n\r\n')
  expect(await old.closed).toContain('"status":"alive"')
  const absolute = await connectRaw(port)
  absolute.send(`GET ${url}/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  expect(await absolute.closed).toContain('"status":"alive"')
  expect((await request(`${url}/healthz`)).status).toBe(200)
})

const notHttp = 'Invalid format: not a valid HTTP request'
const tooLarge = 'Request line and headers are larger than 16 KiB, or there are more than 200 headers'

test.each([
  ['an unknown method', 'FETCH / HTTP/1.1\r\nHost: a\r\n\r\n', 400, notHttp],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400, notHttp],
  ['large headers', `GET / HTTP/1.1\r\nHost: a\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`, 431, tooLarge],
  ['201 headers', `GET / HTTP/1.1\r\nHost: a\r\n${'X-A: b\r\n'.repeat(200)}\r\n`, 431, tooLarge],
  ['a long URL', `GET /?filter=${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431, tooLarge],
])('a request with %s gets an error in the envelope with a request id', async (_name, text, status, error) => {
  const { port } = await start([])
  const connection = await connectRaw(port)
  connection.send(text)
  const answer = await connection.closed
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(answer).toMatch(/X-Request-Id: [\w-]{36}/)
  expect(JSON.parse(answer.slice(answer.indexOf('{')))).toEqual({
    success: false,
    error,
    timestamp: expect.any(Number),
  })
})
