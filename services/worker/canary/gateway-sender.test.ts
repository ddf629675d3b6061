import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from '@jest/globals'
import { gatewaySender } from './gateway-sender.ts'

const key = 'key-of-the-canary'
const never = new AbortController().signal
let stop: (() => Promise<void>) | undefined

afterEach(async () => {
  await stop?.()
  stop = undefined
})

async function answering(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stop = async () => {
    server.close()
    await once(server, 'close')
  }
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('each event has a connection of its own, and is acknowledged by 202 alone', async () => {
  const ports: (number | undefined)[] = []
  const statuses = [202, 200]
  const origin = await answering((request, response) => {
    ports.push(request.socket.remotePort)
    expect([request.url, request.headers.authorization]).toStrictEqual(['/collect', `Bearer ${key}`])
    response.writeHead(statuses.shift() ?? 500).end('{}')
  })
  const send = gatewaySender(origin, key)
  expect(await send({}, never)).toStrictEqual({ isAcknowledged: true, status: 202, error: null })
  expect(await send({}, never)).toStrictEqual({
    isAcknowledged: false,
    status: 200,
    error: 'the answer is not that of a gateway',
  })
  expect(new Set(ports).size).toBe(2)
})

test.each<[string, (request: Parameters<RequestListener>[0]) => string, string]>([
  ['the error of a gateway', () => '{"success":false,"error":"Site not found"}', 'Site not found'],
  ['the status where there is none', () => '<html>', 'the receiver answered with status 404'],
  ['no key that a server repeats', ({ headers }) => JSON.stringify({ error: headers.authorization }), 'Bearer [key]'],
  ['200 characters at most', () => JSON.stringify({ error: 'x'.repeat(1_000) }), 'x'.repeat(200)],
])('the reason of a refusal is %s', async (_, answer, error) => {
  const origin = await answering((request, response) => response.writeHead(404).end(answer(request)))
  expect(await gatewaySender(origin, key)({}, never)).toStrictEqual({ isAcknowledged: false, status: 404, error })
})

test('a gateway that can not be reached is a reason too', async () => {
  expect(await gatewaySender('http://127.0.0.1:1', key)({}, never)).toStrictEqual({
    isAcknowledged: false,
    status: null,
    error: 'connection refused',
  })
})
