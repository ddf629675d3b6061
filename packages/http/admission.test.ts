import { afterEach, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/contracts/api-key'
import { waitUntil } from '@sluice/engines/processes'
import { connectRaw, keysInMemory, request, startTestService, type TestService } from './testing.ts'
import { serverLimits } from './server-limits.ts'

const mebibyte = 1024 * 1024
const key = generateKey('prod')
const otherKey = generateKey('prod')
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }

let service: TestService

afterEach(async () => {
  await service.stop()
})

async function heldBytes(): Promise<number> {
  const [metric] = (await service.metrics.getMetricsAsJSON()).filter(
    ({ name }) => name === 'sluice_http_in_flight_bytes',
  )
  return metric?.values[0]?.value ?? -1
}

test('bodies on their way fill a key’s half: its next large one gets 503 and Retry-After, its small ones and others are served', async () => {
  service = await startTestService(
    {
      routes: [
        {
          method: 'POST',
          path: '/batch',
          scope: 'events:write',
          limit: 'events',
          body: { types: ['application/json'], maxBytes: 10 * mebibyte },
          handle: () => Promise.resolve({ status: 202 }),
        },
      ],
    },
    keysInMemory({ [key]: { scopes: ['events:write'] }, [otherKey]: { scopes: ['events:write'] } }),
  )
  const post = (body: Buffer, by = key) =>
    request(`${service.url}/batch`, { method: 'POST', headers: { ...headers, Authorization: `Bearer ${by}` }, body })

  // Three clients that send all but the last byte, and wait.
  const body = Buffer.alloc(10 * mebibyte, ' ')
  const stuck = await Promise.all(Array.from({ length: 3 }, () => connectRaw(service.port)))
  for (const { send } of stuck) {
    send(
      `POST /batch HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    send(body.subarray(1))
  }
  const held = 3 * (body.length - 1 + serverLimits.requestBytes)
  await waitUntil(async () => (await heldBytes()) === held, 'three bodies are held', 10_000)

  const refused = await post(body)
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await post(Buffer.from('{}'))).status).toBe(202)
  // The others have half of the rest.
  expect((await post(body, otherKey)).status).toBe(202)
  expect((await fetch(`${service.url}/readyz`)).status).toBe(200)

  // One finishes, the others leave: all that they held is free again.
  const [first, ...others] = stuck
  first?.send(body.subarray(0, 1))
  await first?.received(/ 202 /)
  for (const { socket } of [...others, ...(first ? [first] : [])]) socket.destroy()
  await waitUntil(async () => (await heldBytes()) === 0, 'nothing is held', 10_000)
  expect((await post(body)).status).toBe(202)
})
