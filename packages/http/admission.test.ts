import type { Socket } from 'node:net'
import { brotliCompressSync } from 'node:zlib'
import { afterEach, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { eventLimits } from '@sluice/contracts/event-limits'
import { createMetrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import {
  connectRaw,
  keysInMemory,
  request,
  startTestService,
  type TestService,
} from '../../tests/support/test-service.ts'
import { createAdmission, type MemoryQuota } from './admission.ts'
import type { ApiRequest } from './route.ts'
import { serverLimits } from './server-limits.ts'

const mebibyte = 1024 * 1024
const key = generateKey('prod')
const otherKey = generateKey('prod')
/** A key of a web page. */
const pageKey = generateKey('prod')
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }

let running: TestService | undefined
/** Connections of clients that may not have read their responses. */
let unreading: Socket[] = []

afterEach(async () => {
  for (const socket of unreading) socket.destroy()
  unreading = []
  await running?.stop()
  running = undefined
})

async function gaugeOf({ metrics }: TestService, gauge: string): Promise<number> {
  const [metric] = (await metrics.getMetricsAsJSON()).filter(({ name }) => name === gauge)
  return metric?.values[0]?.value ?? -1
}

const reservedBytesOf = (service: TestService) => gaugeOf(service, 'sluice_http_in_flight_bytes')
const unreadBytesOf = (service: TestService) => gaugeOf(service, 'sluice_http_unread_answer_bytes')

/** A service whose `POST /batch` takes bodies of up to 10 MiB. */
async function startBatches(): Promise<TestService> {
  running = await startTestService(
    {
      routes: [
        {
          method: 'POST',
          path: '/batch',
          scope: 'events:write',
          limit: 'events',
          body: { kind: 'json', maxBytes: 10 * mebibyte },
          handle: () => Promise.resolve({ status: 202 }),
        },
      ],
    },
    keysInMemory({
      [key]: { scopes: ['events:write'] },
      [otherKey]: { scopes: ['events:write'] },
      [pageKey]: { scopes: ['events:write'], rateLimits: { events_per_minute_per_address: 300 } },
    }),
    undefined,
    behindProxy,
  )
  return running
}

/** A client's address is the one in `X-Forwarded-For`. */
const behindProxy = { SLUICE_TRUSTED_PROXIES: ['loopback'] }

test('a key that has reserved half of the memory gets 503 for a large body, while small bodies and other keys are served', async () => {
  const service = await startBatches()
  const reservedBytes = () => reservedBytesOf(service)
  const post = (body: Buffer, usedKey = key) =>
    request(`${service.url}/batch`, {
      method: 'POST',
      headers: { ...headers, Authorization: `Bearer ${usedKey}` },
      body,
    })

  // Three clients send all but the last byte of their bodies.
  const body = Buffer.alloc(10 * mebibyte, ' ')
  const slowClients = await Promise.all(Array.from({ length: 4 }, () => connectRaw(service.port)))
  const [first, second, third, fourth] = slowClients
  const sendSlowly = (client: (typeof slowClients)[number] | undefined, bytes: number) => {
    client?.send(
      `POST /batch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${bytes + 1}\r\n\r\n`,
    )
    client?.send(body.subarray(0, bytes))
  }
  for (const client of [first, second, third]) sendSlowly(client, body.length - 1)
  const reserved = 3 * (body.length - 1 + serverLimits.requestBytes)
  await waitUntil(async () => (await reservedBytes()) === reserved, 'three bodies are held')

  const refused = await post(body)
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await post(Buffer.from('{}'))).status).toBe(202)
  // Another key may reserve half of the memory that is left.
  expect((await post(body, otherKey)).status).toBe(202)
  expect((await fetch(`${service.url}/readyz`)).status).toBe(200)

  await waitUntil(async () => (await reservedBytes()) === reserved, 'the answered requests are held no more')

  // What is left of the key's half is too small for one more request. The 503 has the rate-limit headers, as every
  // response has.
  const rest = serverLimits.inFlightBytesMax / 2 - reserved
  sendSlowly(fourth, rest - serverLimits.requestBytes - 1)
  await waitUntil(async () => (await reservedBytes()) === reserved + rest - 1, 'the half is held')
  const refusedAtOnce = await post(Buffer.from('{}'))
  expect(refusedAtOnce.status).toBe(503)
  expect(refusedAtOnce.headers.get('x-ratelimit-limit')).toBe('10000')
  expect(refusedAtOnce.headers.get('x-ratelimit-remaining')).toMatch(/^[0-9]+$/)

  // One request finishes and the other clients disconnect: all reserved memory is released.
  first?.send(body.subarray(0, 1))
  await first?.received(/ 202 /)
  for (const { socket } of slowClients) socket.destroy()
  await waitUntil(async () => (await reservedBytes()) === 0, 'nothing is held')
  expect((await post(body)).status).toBe(202)
})

/** A service whose `POST /v1/track` takes bodies of up to 10 MiB with the key in them. */
async function startSegment(): Promise<TestService> {
  running = await startTestService(
    {
      routes: [
        {
          method: 'POST',
          path: '/v1/track',
          scope: 'events:write',
          limit: 'events',
          dialect: 'segment',
          body: { kind: 'json', maxBytes: 10 * mebibyte },
          handle: () => Promise.resolve({ status: 200 }),
        },
      ],
    },
    keysInMemory({ [key]: { scopes: ['events:write'] } }),
    undefined,
    behindProxy,
  )
  return running
}

/**
 * Sends all but the last byte of bodies of `bytes`, one client after the other, from one address. Each is held or
 * refused when this resolves; the result is the number of refused ones.
 */
async function holdBodies(service: TestService, head: string, count: number, bytes: number): Promise<number> {
  const holds = bytes - 1 + (head.includes('Authorization') ? serverLimits.requestBytes : 0)
  let refused = 0
  for (let sent = 1; sent <= count; sent++) {
    const { socket, send, received } = await connectRaw(service.port)
    unreading.push(socket)
    send(`${head}X-Forwarded-For: 203.0.113.1\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`)
    send(Buffer.alloc(bytes - 1, ' '))
    void received(/ 503 /).then(
      () => refused++,
      () => undefined,
    )
    const isSettled = async () => (await reservedBytesOf(service)) === (sent - refused) * holds
    await waitUntil(isSettled, `body ${sent} is held or refused`)
  }
  return refused
}

test('slow bodies with the key in them leave half of their memory to clients of other networks', async () => {
  const service = await startSegment()
  const track = async (address: string) => {
    const response = await fetch(`${service.url}/v1/track`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Forwarded-For': address },
      body: JSON.stringify({ writeKey: key }),
    })
    return response.status
  }
  expect(await holdBodies(service, 'POST /v1/track HTTP/1.1\r\nHost: a\r\n', 8, mebibyte)).toBe(4)
  expect(await track('203.0.113.2')).toBe(200)
  expect(await track('203.0.113.1')).toBe(503)
  for (const socket of unreading) socket.destroy()
  await waitUntil(async () => (await reservedBytesOf(service)) === 0, 'nothing is held')
  expect(await track('203.0.113.1')).toBe(200)
})

test("slow bodies with the key of a web page leave some of the key's memory to visitors of other networks", async () => {
  const service = await startBatches()
  const post = async (address: string) => {
    const response = await fetch(`${service.url}/batch`, {
      method: 'POST',
      headers: { ...headers, Authorization: `Bearer ${pageKey}`, 'X-Forwarded-For': address },
      body: '{}              ',
    })
    return response.status
  }
  const head = `POST /batch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${pageKey}\r\n`
  // With its request, each is 10 MiB, so that three are nearly all that the key may reserve.
  expect(await holdBodies(service, head, 3, 10 * mebibyte - serverLimits.requestBytes)).toBe(1)
  expect(await post('203.0.113.2')).toBe(202)
  expect(await post('203.0.113.1')).toBe(503)
  for (const socket of unreading) socket.destroy()
  await waitUntil(async () => (await reservedBytesOf(service)) === 0, 'nothing is held')
  expect(await post('203.0.113.1')).toBe(202)
})

test('a small body with the key in it counts for its request while it waits to be decompressed', async () => {
  const service = await startSegment()
  const body = brotliCompressSync(Buffer.alloc(11 * mebibyte))
  const answers = Array.from({ length: 200 }, () =>
    fetch(`${service.url}/v1/track`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'br' },
      body,
    }),
  )
  const waiting = 20 * serverLimits.requestBytes
  await waitUntil(async () => (await reservedBytesOf(service)) >= waiting, 'twenty requests are held')
  for (const { status } of await Promise.all(answers)) expect([413, 503]).toContain(status)
})

test('connections that send no body do not refuse requests with the key in the body', async () => {
  const { port, url } = await startSegment()
  const count = serverLimits.bodyKeyInFlightBytesMax / serverLimits.requestBytes
  const idle = await Promise.all(Array.from({ length: count }, () => connectRaw(port)))
  unreading = idle.map(({ socket }) => socket)
  for (const { send } of idle) {
    send(
      'POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n',
    )
  }
  // The service has begun with all of them.
  await Promise.all(idle.map(({ received }) => received(/ 100 /)))
  const response = await fetch(`${url}/v1/track`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ writeKey: key }),
  })
  expect(response.status).toBe(200)
})

test('two thousand clients of a key that never send the rest of their headers or body hold up no other key', async () => {
  const service = await startBatches()
  const begun = `POST /batch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n`
  const bodyBegun = '{"events":'
  const [count, together] = [2_000, 200]
  for (let opened = 0; opened < count; opened += together) {
    const clients = await Promise.all(Array.from({ length: together }, () => connectRaw(service.port)))
    unreading.push(...clients.map(({ socket }) => socket))
    for (const [n, { send }] of clients.entries()) send(n % 2 === 0 ? begun : `${begun}\r\n${bodyBegun}`)
  }
  const held = (count / 2) * (serverLimits.requestBytes + bodyBegun.length)
  await waitUntil(async () => (await reservedBytesOf(service)) === held, 'the requests with a body are under way')
  const others = Array.from({ length: 50 }, () =>
    request(`${service.url}/batch`, {
      method: 'POST',
      headers: { ...headers, Authorization: `Bearer ${otherKey}` },
      body: Buffer.alloc(100_000, ' '),
    }),
  )
  expect(new Set((await Promise.all(others)).map(({ status }) => status))).toStrictEqual(new Set([202]))
  expect(unreading.filter(({ destroyed }) => destroyed)).toStrictEqual([])
  for (const socket of unreading) socket.destroy()
  await waitUntil(async () => (await reservedBytesOf(service)) === 0, 'nothing is held')
})

test('the memory is full when a request of a further key does not fit, until some is released', () => {
  const { inFlightBytesMax, requestBytes } = serverLimits
  const admission = createAdmission(createMetrics())
  const reserved: { quota: MemoryQuota; bytes: number }[] = []
  // Each key reserves half of the memory that the earlier keys have left.
  for (let bytes = inFlightBytesMax / 2; bytes >= requestBytes; bytes /= 2) {
    expect(admission.isFull()).toBe(false)
    const quota = admission.quotaOf(`key-${bytes}`)
    admission.reserve(quota, bytes)
    reserved.push({ quota, bytes })
  }
  expect(admission.isFull()).toBe(true)
  expect(() => admission.reserve(admission.quotaOf('another'), requestBytes)).toThrow(
    expect.objectContaining({ code: 'unavailable' }),
  )
  const [largest] = reserved
  if (largest) admission.release(largest.quota, largest.bytes)
  expect(admission.isFull()).toBe(false)
})

test('a network has the memory of the largest batch, as it is received and decompressed', () => {
  const admission = createAdmission(createMetrics())
  const quota = admission.quotaOf('page')
  admission.reserve(quota, serverLimits.requestBytes, 'a')
  admission.reserve(quota, eventLimits.batchBytesMax, 'a')
  admission.reserve(quota, eventLimits.batchBytesMax, 'a')
  expect(() => admission.reserve(quota, 1, 'a')).toThrow()
  // What another network needs is left, also while other keys have reserved most of the memory.
  admission.release(quota, serverLimits.requestBytes + 2 * eventLimits.batchBytesMax, 'a')
  admission.reserve(admission.quotaOf('other'), 24 * mebibyte)
  expect(() => admission.reserve(quota, 14 * mebibyte, 'a')).toThrow()
  admission.reserve(quota, 13 * mebibyte, 'a')
  admission.reserve(quota, 4 * mebibyte, 'b')
})

test('a network has half of what the other networks of its quota leave', () => {
  const admission = createAdmission(createMetrics())
  const { bodyKeyQuota } = admission
  const half = serverLimits.bodyKeyInFlightBytesMax / 2
  const unavailable = expect.objectContaining({ code: 'unavailable' })
  admission.reserve(bodyKeyQuota, half - 1, 'a')
  admission.reserve(bodyKeyQuota, 1, 'a')
  expect(() => admission.reserve(bodyKeyQuota, 1, 'a')).toThrow(unavailable)
  admission.reserve(bodyKeyQuota, half / 2, 'b')
  expect(() => admission.reserve(bodyKeyQuota, 1, 'b')).toThrow(unavailable)
  admission.release(bodyKeyQuota, half, 'a')
  admission.reserve(bodyKeyQuota, half / 4, 'b')
  admission.release(bodyKeyQuota, (half / 4) * 3, 'b')
  expect(bodyKeyQuota).toMatchObject({ reservedBytes: 0, networks: new Map() })
})

/**
 * A service with `GET /answer?bytes=…` and `POST /answer?bytes=…`. Both answer with so many bytes and the envelope; the
 * `POST` counts as a change.
 */
async function startAnswers(): Promise<TestService> {
  const answer = {
    path: '/answer',
    scope: 'stats:read',
    handle: ({ query }: ApiRequest) => Promise.resolve({ status: 200 as const, data: 'x'.repeat(Number(query.bytes)) }),
  } as const
  running = await startTestService(
    {
      routes: [
        { ...answer, method: 'GET', limit: 'queries' },
        { ...answer, method: 'POST', limit: 'admin' },
      ],
    },
    keysInMemory({ [key]: { scopes: ['stats:read'] }, [otherKey]: { scopes: ['stats:read'] } }),
  )
  return running
}

/** Asks for an answer and reads no more than its beginning. Resolves with the status. */
async function askWithoutReading({ port }: TestService, bytes: number, usedKey = key) {
  const { socket, send, received } = await connectRaw(port)
  unreading.push(socket)
  send(`GET /answer?bytes=${bytes} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${usedKey}\r\n\r\n`)
  const head = await received(/\r\n\r\n/)
  socket.pause()
  return { status: Number(head.split(' ')[1]), head, socket }
}

test('answers that a key does not read hold half of their memory at most, until it reads them or disconnects', async () => {
  const service = await startAnswers()
  const bytes = 20 * mebibyte
  const asked: Awaited<ReturnType<typeof askWithoutReading>>[] = []
  for (let n = 0; n < 8; n++) asked.push(await askWithoutReading(service, bytes))
  expect(asked.map(({ status }) => status)).toEqual([200, 200, 200, 503, 503, 503, 503, 503])
  expect(asked.at(-1)?.head.toLowerCase()).toContain('retry-after: 1')
  expect(await unreadBytesOf(service)).toBeGreaterThan(3 * bytes)

  // Answers that are read at once, and those of other keys, are not affected.
  const get = (usedKey: string, size: number) =>
    fetch(`${service.url}/answer?bytes=${size}`, { headers: { Authorization: `Bearer ${usedKey}` } })
  expect((await get(key, 1)).status).toBe(200)
  expect((await (await get(otherKey, bytes)).text()).length).toBeGreaterThan(bytes)

  asked[0]?.socket.resume()
  await waitUntil(async () => (await unreadBytesOf(service)) < 3 * bytes, 'one answer was read')
  expect((await askWithoutReading(service, bytes)).status).toBe(200)
  for (const { socket } of asked) socket.destroy()
  await waitUntil(async () => (await unreadBytesOf(service)) < 2 * bytes, 'the clients have disconnected')
})

test('the answer to a change, which may show a secret once, is sent however much is unread', async () => {
  const service = await startAnswers()
  await askWithoutReading(service, serverLimits.responseBytesMax)
  const bytes = 2 * serverLimits.requestBytes
  expect((await askWithoutReading(service, bytes)).status).toBe(503)
  const changed = await fetch(`${service.url}/answer?bytes=${bytes}`, { method: 'POST', headers })
  expect(changed.status).toBe(200)
  expect((await changed.text()).length).toBeGreaterThan(bytes)
})

test('the largest answer is possible while no other is held', async () => {
  const service = await startAnswers()
  const bytes = serverLimits.responseBytesMax + mebibyte
  const { status, socket } = await askWithoutReading(service, bytes)
  expect(status).toBe(200)
  expect((await askWithoutReading(service, 2 * serverLimits.requestBytes)).status).toBe(503)
  expect((await askWithoutReading(service, mebibyte, otherKey)).status).toBe(200)
  socket.destroy()
  await waitUntil(async () => (await unreadBytesOf(service)) < 2 * mebibyte, 'the answer is held no more')
})

test('small answers that are not read count with their requests, pipelined ones too', async () => {
  const service = await startAnswers()
  const { socket, send, received } = await connectRaw(service.port)
  const ask = (bytes: number) =>
    `GET /answer?bytes=${bytes} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`
  send(ask(20 * mebibyte) + ask(1).repeat(9))
  await received(/\r\n\r\n/)
  socket.pause()
  const { requestBytes } = serverLimits
  await waitUntil(async () => (await reservedBytesOf(service)) === 10 * requestBytes, 'the requests are held')
  socket.destroy()
  const held = async () => (await reservedBytesOf(service)) + (await unreadBytesOf(service))
  await waitUntil(async () => (await held()) === 0, 'nothing is held')
})

test('a refused request holds no memory while its client goes on sending', async () => {
  const service = await startBatches()
  const { socket, send, received } = await connectRaw(service.port)
  unreading.push(socket)
  send(
    `POST /batch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: text/xml\r\nContent-Length: ${mebibyte}\r\nConnection: close\r\n\r\n`,
  )
  await received(/ 415 /)
  expect(await reservedBytesOf(service)).toBe(0)
})
