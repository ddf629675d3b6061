import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { leaseMetrics } from '@sluice/leases/metrics'
import type { AttemptResult, Outbound } from '@sluice/outbound/outbound'
import { queueDeliveries } from '@sluice/postgres/deliveries'
import { deliveryQueue } from '@sluice/postgres/delivery-queue'
import { createMetrics } from '@sluice/runtime/metrics'
import { waitUntil } from '@sluice/runtime/wait-until'
import { deliveryMetrics } from '@sluice/worker/webhooks/metrics'
import { deliverySender } from '@sluice/worker/webhooks/sender'
import { capturedLogger } from '../support/captured-logger.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts'
import { addWebhook, testSecrets } from '../support/webhooks.ts'

const noon = Date.UTC(2042, 5, 1, 12)
const timeoutMs = 15_000
const endpointCount = 50
const seconds = 20
/** Deliveries that wait at the endpoints that hang, more than a worker has connections. */
const backlog = 400

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

afterEach(async () => {
  await postgres.db.deleteFrom('endpoints').execute()
})

const succeeded: AttemptResult = {
  succeeded: true,
  status: 200,
  latencyMs: 0,
  response: '',
  error: null,
  retryAfterMs: null,
}
const timedOut = { ...succeeded, succeeded: false, status: null, response: null, error: 'no response within 15 s' }

/** Receivers whose URL says whether they hang, in virtual time; counts how many attempts hang at once. */
function hangingReceivers(clock: VirtualClock) {
  const hanging = new Map<string, number>()
  let mostAtOne = 0
  let mostAtAll = 0
  const outbound: Pick<Outbound, 'post' | 'mail'> = {
    post: async ({ url }) => {
      if (!url.includes('hang')) return succeeded
      hanging.set(url, (hanging.get(url) ?? 0) + 1)
      mostAtOne = Math.max(mostAtOne, hanging.get(url) ?? 0)
      mostAtAll = Math.max(
        mostAtAll,
        [...hanging.values()].reduce((sum, each) => sum + each, 0),
      )
      await clock.sleep(timeoutMs)
      hanging.set(url, (hanging.get(url) ?? 0) - 1)
      return timedOut
    },
    mail: () => Promise.resolve(timedOut),
  }
  return { outbound, most: () => ({ mostAtOne, mostAtAll }) }
}

/** Runs a sender; `pass` advances its time, which stands while Postgres works. */
function startSender(clock: VirtualClock, outbound: Pick<Outbound, 'post' | 'mail'>) {
  const metrics = createMetrics()
  const queue = deliveryQueue(postgres)
  let underWay = 0
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    underWay += 1
    return work.finally(() => (underWay -= 1))
  }
  const stopping = new AbortController()
  const running = deliverySender({
    queue: {
      ...queue,
      take: (...call) => counted(queue.take(...call)),
      record: (...call) => counted(queue.record(...call)),
    },
    outbound,
    secrets: testSecrets,
    clock,
    logger: capturedLogger().logger,
    metrics: deliveryMetrics(metrics),
    leaseMetrics: leaseMetrics(metrics),
  }).run?.(stopping.signal)
  const pass = async (ms: number): Promise<void> => {
    await clock.advance(ms)
    let calm = 0
    await waitUntil(() => (calm = underWay === 0 ? calm + 1 : 0) > 1, 'Postgres has answered')
  }
  const stop = async (): Promise<void> => {
    stopping.abort()
    for (let n = 0; n < 40; n += 1) await clock.advance(500)
    await running
  }
  return { pass, stop }
}

let queued = 0

/** Queues a delivery for each of the endpoints. */
function queueFor(endpointIds: readonly string[], at: number): Promise<unknown> {
  const deliveries = endpointIds.map((endpointId) => {
    return { endpointId, source: `source ${(queued += 1)}`, kind: 'alert', body: Buffer.from('{}') } as const
  })
  return queueDeliveries(postgres.db, deliveries, at)
}

/** The milliseconds from the queueing of each delivery of these endpoints to its attempt, ascending. */
async function delaysOf(endpointIds: readonly string[]): Promise<number[]> {
  const rows = await postgres.db
    .selectFrom('deliveries')
    .leftJoin('attempts', 'attempts.delivery_id', 'deliveries.delivery_id')
    .select(['created_at', 'at'])
    .where('endpoint_id', 'in', endpointIds)
    .execute()
  return rows.map(({ at, created_at }) => (at?.getTime() ?? Infinity) - created_at.getTime()).sort((a, b) => a - b)
}

test.each([1, 25])('while %d of 50 receivers hang, the others get their deliveries within 2 s', async (count) => {
  const clock = virtualClock(noon)
  const { outbound, most } = hangingReceivers(clock)
  const endpoints: string[] = []
  for (let n = 0; n < endpointCount; n += 1) {
    endpoints.push(await addWebhook(postgres, { url: `http://127.0.0.1/${n < count ? 'hang' : 'ok'}/${n}` }))
  }
  const backlogged = Array.from({ length: backlog }, (_, n) => endpoints[n % count] ?? '')
  await queueFor(backlogged, clock.now())
  const { pass, stop } = startSender(clock, outbound)
  for (let second = 0; second < seconds; second += 1) {
    // Each healthy receiver gets a delivery a second, and the queues of those that hang grow.
    await queueFor(endpoints, clock.now())
    for (let part = 0; part < 2; part += 1) await pass(500)
  }
  await pass(2_000)

  const delays = await delaysOf(endpoints.slice(count))
  expect(delays).toHaveLength(seconds * (endpointCount - count))
  const [p99 = Infinity] = delays.slice(Math.ceil(delays.length * 0.99) - 1)
  expect(p99).toBeLessThanOrEqual(2_000)
  expect(most().mostAtOne).toBe(4)
  expect(most().mostAtAll).toBeLessThanOrEqual(4 * count)
  await stop()
})

test('the slow receivers of two sites delay no delivery of a third one', async () => {
  const clock = virtualClock(noon)
  const slow: string[] = []
  for (let n = 0; n < 140; n += 1) {
    slow.push(await addWebhook(postgres, { siteId: `slow-${n % 2}`, url: `http://127.0.0.1/slow/${n}` }))
  }
  const other = await addWebhook(postgres, { siteId: 'other', url: 'http://127.0.0.1/ok' })
  for (let n = 0; n < 20; n += 1) await queueFor(slow, clock.now())
  let running = 0
  const { pass, stop } = startSender(clock, {
    post: async ({ url }) => {
      if (!url.includes('slow')) return succeeded
      running += 1
      await clock.sleep(timeoutMs - 1_000)
      running -= 1
      return succeeded
    },
    mail: () => Promise.resolve(timedOut),
  })
  await pass(1_000)
  expect(running).toBeGreaterThanOrEqual(128)
  for (let second = 0; second < seconds; second += 1) {
    await queueFor([other], clock.now())
    await pass(1_000)
  }
  await pass(2_000)
  const delays = await delaysOf([other])
  expect(delays).toHaveLength(seconds)
  expect(delays.at(-1)).toBeLessThanOrEqual(2_000)
  await stop()
})
