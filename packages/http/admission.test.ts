import { afterEach, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
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
import { serverLimits } from './server-limits.ts'

const mebibyte = 1024 * 1024
const key = generateKey('prod')
const otherKey = generateKey('prod')
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }

let running: TestService | undefined

afterEach(async () => {
  await running?.stop()
  running = undefined
})

async function reservedBytesOf({ metrics }: TestService): Promise<number> {
  const [metric] = (await metrics.getMetricsAsJSON()).filter(({ name }) => name === 'sluice_http_in_flight_bytes')
  return metric?.values[0]?.value ?? -1
}

test('a key that has reserved half of the memory gets 503 for a large body, while small bodies and other keys are served', async () => {
  const service = await startTestService(
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
    keysInMemory({ [key]: { scopes: ['events:write'] }, [otherKey]: { scopes: ['events:write'] } }),
  )
  running = service
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

  // The rest of its half is too small for one more request: the response says what the key may send, as every response does.
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

test('the memory is full when a request of a further key does not fit, until some is released', () => {
  const { inFlightBytesMax, requestBytes } = serverLimits
  const admission = createAdmission(createMetrics())
  const reserved: { quota: MemoryQuota; bytes: number }[] = []
  // Each key holds half of what those before it have left.
  for (let bytes = inFlightBytesMax / 2; bytes >= requestBytes; bytes /= 2) {
    expect(admission.isFull()).toBe(false)
    const quota = admission.quotaOf(`key-${bytes}`)
    expect(admission.reserve(quota, bytes)).toBeUndefined()
    reserved.push({ quota, bytes })
  }
  expect(admission.isFull()).toBe(true)
  expect(admission.reserve(admission.quotaOf('another'), requestBytes)).toMatchObject({ code: 'unavailable' })
  const [largest] = reserved
  if (largest) admission.release(largest.quota, largest.bytes)
  expect(admission.isFull()).toBe(false)
})
