import { createHmac, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { leaseMetrics } from '@sluice/leases/metrics'
import { openOutbound } from '@sluice/outbound/open-outbound'
import { deliveryQueue } from '@sluice/postgres/delivery-queue'
import { encryptTarget } from '@sluice/postgres/endpoints'
import { webhookStore } from '@sluice/postgres/webhooks'
import { createMetrics } from '@sluice/runtime/metrics'
import { createSecretCipher, type SecretCipher } from '@sluice/runtime/secret-cipher'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { virtualClock } from '../../../tests/support/virtual-clock.ts'
import { addDelivery, addWebhook } from '../../../tests/support/webhooks.ts'
import { deliveryMetrics } from './metrics.ts'
import { secretsReencryption } from './secrets-reencryption.ts'
import { deliverySender } from './sender.ts'

const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
const noon = Date.UTC(2042, 5, 1, 12)

let postgres: TestPostgres
let base: string
let status = 200
const received: { signature: unknown; expected: string }[] = []
const clock = virtualClock(noon)
const outbound = openOutbound({ allowedNetworks: ['127.0.0.0/8'] })
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const text = `${String(request.headers['x-svc-timestamp'])}.${Buffer.concat(chunks).toString()}`
    received.push({
      signature: request.headers['x-svc-signature'],
      expected: createHmac('sha256', 'top').update(text).digest('hex'),
    })
    response.writeHead(status).end()
  })
})

beforeAll(async () => {
  postgres = await openTestPostgres()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

afterAll(async () => {
  server.close()
  await outbound.close()
  await postgres.drop()
})

let stop: () => Promise<void> = () => Promise.resolve()
afterEach(() => stop())

/** Runs what a worker does with deliveries and keys. */
function startWorker(secrets: SecretCipher) {
  const registry = createMetrics()
  const log = capturedLogger()
  const stopping = new AbortController()
  const { logger } = log
  const sender = deliverySender({
    queue: deliveryQueue(postgres),
    outbound,
    secrets,
    clock,
    logger,
    metrics: deliveryMetrics(registry),
    leaseMetrics: leaseMetrics(registry),
  })
  const components = [sender, secretsReencryption({ postgres, secrets }, { logger, metrics: registry })]
  const running = Promise.all(components.map(async (component) => component.run?.(stopping.signal)))
  stop = async () => {
    stopping.abort()
    await running
  }
  const messages = () => log.lines().map(({ level, msg }) => `${String(level)}: ${String(msg)}`)
  const otherKey = async () => /^sluice_worker_endpoints_other_key (\d+)$/m.exec(await registry.metrics())?.[1]
  return { messages, otherKey, log }
}

test('before it has counted, a worker does not say that nothing needs the former key', async () => {
  const registry = createMetrics()
  secretsReencryption(
    { postgres, secrets: createSecretCipher(newKey, oldKey) },
    { logger: capturedLogger().logger, metrics: registry },
  )
  expect(await registry.metrics()).not.toMatch(/^sluice_worker_endpoints_other_key/m)
})

test('a delivery under way outlives the change of the key: both keys, stored anew, the former one dropped', async () => {
  const before = createSecretCipher(oldKey)
  const webhookId = await addWebhook(postgres, {
    ...encryptTarget(before, 'webhook', base),
    encryptedSecret: before.encrypt('top'),
  })
  const until = async (what: string, condition: () => boolean | Promise<boolean>) => {
    await waitUntil(async () => {
      await clock.advance(1_000)
      return condition()
    }, what)
  }
  const find = (deliveryId: string) => webhookStore(postgres).findDelivery(webhookId, deliveryId)

  status = 503
  let worker = startWorker(before)
  const first = await addDelivery(postgres, webhookId, clock.now())
  await until('the first attempt', async () => (await find(first))?.attempts.length === 1)
  await until('the worker has counted', async () => (await worker.otherKey()) === '0')
  await stop()

  status = 200
  worker = startWorker(createSecretCipher(newKey))
  const second = await addDelivery(postgres, webhookId, clock.now())
  const says = (text: string) => worker.messages().some((message) => message.includes(text))
  await until('the worker with the new key alone says what is missing', () => says('error: URLs or secrets'))
  const isAttempt = ({ outcome, delivery_id: id }: Record<string, unknown>) => outcome === 'lost' && id === second
  await until('it can not open the URL', () => worker.log.lines().some(isAttempt))
  expect(await worker.otherKey()).toBe('1')
  await stop()

  worker = startWorker(createSecretCipher(newKey, oldKey))
  await until('the worker says that nothing needs the former key', () => says('warn: Nothing is stored with'))
  expect(await worker.otherKey()).toBe('0')
  await stop()

  worker = startWorker(createSecretCipher(newKey))
  await until('both deliveries', async () => {
    const found = await Promise.all([find(first), find(second)])
    return found.every((delivery) => delivery?.status === 'succeeded')
  })
  expect((await find(second))?.attempts).toHaveLength(1)
  expect(received.length).toBeGreaterThanOrEqual(3)
  for (const { signature, expected } of received) expect(signature).toBe(expected)
  expect(worker.messages().filter((message) => !message.startsWith('info'))).toStrictEqual([])
})
