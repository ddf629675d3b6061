import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { connectRaw, keysInMemory, startTestService, type TestService } from '../../tests/support/test-service.ts'
import { pageOnDemand } from './page-on-demand.ts'
import type { Route } from './route.ts'
import { servicePage } from './service-page.ts'
import { originPlaceholder, staticHtmlPage } from './static-html-page.ts'

const handle = () => Promise.resolve({ status: 200 as const })
const routes: Route[] = [
  { method: 'POST', path: '/collect', scope: 'public', handle },
  { method: 'GET', path: '/sites/:site_id', scope: 'public', handle },
]
/** What Chromium and Firefox send when somebody opens an address. */
const browser = { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8' }

const mebibyte = 1024 * 1024
const largeBytes = 32 * mebibyte

let service: TestService
let builtOnDemand = 0

beforeAll(async () => {
  const pages = [
    servicePage('gateway', 'It takes events.'),
    // More than the system's buffers of a connection take.
    staticHtmlPage('/large', {
      title: 'Large',
      style: '',
      body: `curl ${originPlaceholder}/${'x'.repeat(largeBytes)}`,
    }),
    staticHtmlPage('/quoted', {
      title: 'Quoted',
      style: '',
      body: `curl ${originPlaceholder}/a\ncurl ${originPlaceholder}/b\n`,
    }),
    pageOnDemand('/on-demand', () => {
      builtOnDemand += 1
      return staticHtmlPage('/on-demand', { title: 'On demand', style: '', body: 'built' })
    }),
  ]
  service = await startTestService({ routes, pages }, keysInMemory({}), undefined, {
    SLUICE_TRUSTED_PROXIES: ['loopback'],
  })
})

afterAll(async () => {
  await service.stop()
})

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(service.url + path, { headers, method })

describe('who opens a wrong address in a browser sees a page', () => {
  test.each([
    ['/nowhere', 404, 'There is nothing at this address'],
    ['/api/v1/nowhere', 404, 'There is nothing at this address'],
    ['/collect', 405, 'It takes requests with the method POST'],
    ['/sites/%zz', 400, 'Check it for a typing mistake'],
  ])('%s: %i', async (path, status, text) => {
    const response = await get(path, { ...browser, 'X-Request-Id': 'request-7' })
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(response.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+';/)
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('vary')).toBe('Accept')
    expect(response.headers.get('x-request-id')).toBe('request-7')
    expect(response.headers.get('allow')).toBe(status === 405 ? 'POST' : null)
    const html = await response.text()
    expect(html).toContain(text)
    expect(html).toContain('<a href="/">')
    expect(html).toContain('Request id: request-7')
  })

  test('that echoes nothing of the address', async () =>
    expect(await (await get('/canary%3Cb%3E', browser)).text()).not.toMatch(/canary/))
})

test('a page of an error varies by what its form and its headers depend on', async () => {
  const withOrigins = await startTestService({ routes }, keysInMemory({}), undefined, {
    SLUICE_CORS_ORIGINS: ['https://app.example'],
  })
  const response = await fetch(`${withOrigins.url}/api/v1/nowhere`, {
    headers: { ...browser, Origin: 'https://app.example' },
  })
  await withOrigins.stop()
  expect(response.headers.get('content-type')).toMatch(/^text\/html/)
  expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example')
  expect(response.headers.get('vary')).toBe('Accept, Origin')
})

test('a page on demand is built for its first request, and once', async () => {
  expect(builtOnDemand).toBe(0)
  for (let request = 0; request < 2; request++) {
    expect(await (await get('/on-demand', browser)).text()).toContain('built')
    expect(builtOnDemand).toBe(1)
  }
})

test.each([
  ['curl', { Accept: '*/*' }, 'GET'],
  ['a program', { Accept: 'application/json' }, 'GET'],
  ['a program that takes both', { Accept: 'application/json, text/html;q=0.9' }, 'GET'],
  ['who sends no Accept', {}, 'GET'],
  ['a form', browser, 'POST'],
])('%s gets the error as JSON', async (_who, headers, method) => {
  const response = await get('/nowhere', headers, method)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({ success: false, error: 'Not found' })
})

test('a failure is logged and counted whatever its form', async () => {
  await get('/for-the-log', { ...browser, 'X-Request-Id': 'logged-request' })
  expect(service.text()).toMatch(/"request_id":"logged-request".*"status":404/)
})

test('a service that runs alone says what it is', async () => {
  const html = await (await get('/', browser)).text()
  expect(html).toContain('<h1>Sluice: gateway</h1>')
  expect(html).toContain('It takes events.')
  expect((await get('/readyz')).status).toBe(200)
})

test('a page with the origin of the request is sent again only to a client that has that of another origin', async () => {
  const answers = [undefined, 'stats.example'].map(async (host) => {
    const response = await get('/quoted', host === undefined ? {} : { 'X-Forwarded-Host': host })
    expect(response.headers.get('cache-control')).toBe('no-cache')
    const origin = host === undefined ? service.url : `http://${host}`
    expect(await response.text()).toContain(`curl ${origin}/a\ncurl ${origin}/b\n`)
    return response.headers.get('etag') ?? ''
  })
  const [etag = '', other] = await Promise.all(answers)
  expect(etag).not.toBe(other)
  const known = { 'If-None-Match': etag }
  expect((await get('/quoted', known)).status).toBe(304)
  expect((await get('/quoted', { ...known, 'X-Forwarded-Host': 'stats.example' })).status).toBe(200)
})

test('clients that do not read a page hold no copies of it, whatever their hosts', async () => {
  const heldBefore = process.memoryUsage().arrayBuffers
  const clients = await Promise.all(Array.from({ length: 8 }, () => connectRaw(service.port)))
  try {
    for (const [n, { send, socket, received }] of clients.entries()) {
      send(`GET /large HTTP/1.1\r\nHost: host-${n}\r\n\r\n`)
      await received(new RegExp(`curl http://host-${n}/x`))
      socket.pause()
    }
    expect(process.memoryUsage().arrayBuffers - heldBefore).toBeLessThan(largeBytes)
  } finally {
    for (const { socket } of clients) socket.destroy()
  }
})
