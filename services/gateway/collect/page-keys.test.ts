import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { hashKey } from '@sluice/access/api-key'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway({ trustedProxies: ['loopback'] })
})

afterAll(async () => {
  await gateway.stop()
})

const event = { site_id: 'pages', event_type: 'view' }
const batch = (count: number) => ({ events: Array.from({ length: count }, () => event) })

describe('a key with allowed origins', () => {
  const send = async (allowedOrigins: readonly string[] | null, headers: Record<string, string>) => {
    const key = await gateway.createKey({ allowedOrigins })
    return gateway.collect(event, { key, headers })
  }

  test.each<[readonly string[] | null, string, number]>([
    [['https://shop.example', 'https://www.shop.example'], 'https://www.shop.example', 202],
    [['https://shop.example'], 'http://shop.example', 403],
    [['https://shop.example'], 'https://shop.example.evil.example', 403],
    [['https://shop.example'], 'null', 403],
    [['capacitor://localhost'], 'capacitor://localhost', 202],
    [[], 'https://shop.example', 403],
    [null, 'https://shop.example', 202],
  ])('%j answers a page of %s with %i', async (allowed, origin, status) => {
    const answer = await send(allowed, { Origin: origin })
    expect(answer.status).toBe(status)
    // A page may read the refusal.
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    if (status === 403) expect(answer.body.error).toBe('Key is not allowed for this origin')
  })

  test('takes events of servers, which send no origin', async () => {
    expect((await send(['https://shop.example'], {})).status).toBe(202)
  })

  test('refuses a batch as it refuses an event', async () => {
    const key = await gateway.createKey({ allowedOrigins: ['https://shop.example'] })
    const answer = await gateway.collectBatch(batch(2), { key, headers: { Origin: 'https://evil.example' } })
    expect(answer).toMatchObject({ status: 403, body: { error: 'Key is not allowed for this origin' } })
  })
})

test('a key that loses the origin of a page while the page sends an event does not take the event', async () => {
  const origin = 'https://shop.example'
  const key = await gateway.createKey({ allowedOrigins: [origin] })
  const body = JSON.stringify(event)
  const headers = { Authorization: `Bearer ${key}`, Origin: origin, 'Content-Type': 'application/json' }
  const sending = request(`${gateway.service.url}/collect`, {
    method: 'POST',
    headers: { ...headers, 'Content-Length': body.length },
  })
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  const elapsedMs = startStopwatch()
  sending.write(body.slice(0, -1))
  await waitUntil(() => elapsedMs() > 1_100, 'the body takes longer than a second')
  const { keyId = '' } = (await gateway.keyStore.findByHash(hashKey(key))) ?? {}
  await gateway.keyStore.update(keyId, { keyId, siteIds: null }, () => ({ allowedOrigins: [] }))
  const isRefused = async () => (await gateway.collect(event, { key, headers: { Origin: origin } })).status === 403
  await waitUntil(isRefused, 'the change has reached the gateway')
  sending.end(body.slice(-1))
  const [response] = await answered
  response.resume()
  expect(response.statusCode).toBe(403)
})

describe('a limit of events of one address', () => {
  const from = (address: string) => ({ 'X-Forwarded-For': address })

  test('counts each address by itself, and the events of a batch', async () => {
    const key = await gateway.createKey({ rateLimits: { events_per_minute: 100, events_per_minute_per_address: 3 } })
    const one = { key, headers: from('203.0.113.1') }
    const first = await gateway.collectBatch(batch(2), one)
    expect(first.status).toBe(202)
    // The headers are those of the key.
    expect(first.headers.get('x-ratelimit-limit')).toBe('100')
    expect(first.headers.get('x-ratelimit-remaining')).toBe('98')
    expect((await gateway.collectBatch(batch(2), one)).status).toBe(429)
    expect((await gateway.collect(event, one)).status).toBe(202)
    const refused = await gateway.collect(event, one)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    // What was refused costs the key nothing.
    const other = await gateway.collect(event, { key, headers: from('203.0.113.2') })
    expect(other.status).toBe(202)
    expect(other.headers.get('x-ratelimit-remaining')).toBe('96')
  })

  test('refuses a batch that is larger than the limit with 413', async () => {
    const key = await gateway.createKey({ rateLimits: { events_per_minute: 100, events_per_minute_per_address: 3 } })
    const answer = await gateway.collectBatch(batch(4), { key, headers: from('203.0.113.3') })
    expect(answer).toMatchObject({
      status: 413,
      body: {
        error:
          'The request holds 4 events, and one address may send 3 with this key in 60 seconds: send smaller batches',
      },
    })
    expect((await gateway.collectBatch(batch(3), { key, headers: from('203.0.113.3') })).status).toBe(202)
  })

  test('counts nothing for the address when the key has not enough left', async () => {
    const key = await gateway.createKey({ rateLimits: { events_per_minute: 5, events_per_minute_per_address: 6 } })
    const one = { key, headers: from('203.0.113.4') }
    expect((await gateway.collectBatch(batch(3), one)).status).toBe(202)
    // The key has two left. If the address were charged for three, it could not send these two.
    expect((await gateway.collectBatch(batch(3), one)).status).toBe(429)
    expect((await gateway.collectBatch(batch(2), one)).status).toBe(202)
    expect((await gateway.collect(event, { key, headers: from('203.0.113.5') })).status).toBe(429)
  })

  test('counts the addresses of one IPv6 network together', async () => {
    const key = await gateway.createKey({ rateLimits: { events_per_minute: 100, events_per_minute_per_address: 1 } })
    expect((await gateway.collect(event, { key, headers: from('2001:db8:0:7::1') })).status).toBe(202)
    expect((await gateway.collect(event, { key, headers: from('2001:db8:0:7::2') })).status).toBe(429)
    expect((await gateway.collect(event, { key, headers: from('2001:db8:0:8::1') })).status).toBe(202)
  })
})
