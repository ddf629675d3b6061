import { expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { createMetrics } from '@sluice/runtime/metrics'
import { connectRaw, keysInMemory, startTestService } from '../../tests/support/test-service.ts'
import { createWorkQueue } from './work-queue.ts'

const times = { sliceMs: 10, readingMsMax: 3, arrivalWaitMsMax: 1_000, waitMsMax: 1_500 }

/** Occupies the thread, as the handler of a large batch does. */
function work(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

/** Handles a request as dispatch.ts does: some promises on the way, then work. */
async function handle(turn: Promise<void> | undefined, ms: number): Promise<void> {
  await turn
  await Promise.resolve()
  work(ms)
}

test('requests begin at once while their handlers leave time', () => {
  const queue = createWorkQueue(createMetrics(), { ...times, sliceMs: 60_000 })
  for (let n = 0; n < 100; n++) expect(queue.turn(performance.now())).toBeUndefined()
})

/** Counts the turns of the event loop. Sockets are read in each turn. */
function countLoops(): { loops: () => number; stop: () => void } {
  let count = 0
  let immediate: NodeJS.Immediate | undefined
  const next = (): void => {
    count++
    immediate = setImmediate(next)
  }
  next()
  return {
    loops: () => count,
    stop: () => clearImmediate(immediate),
  }
}

test('requests whose handlers need a slice each begin in turns of the event loop of their own, the oldest first', async () => {
  const queue = createWorkQueue(createMetrics(), { ...times, waitMsMax: 60_000 })
  await handle(queue.turn(performance.now()), 2 * times.sliceMs)
  const { loops, stop } = countLoops()
  const begun: { n: number; loop: number }[] = []
  await Promise.all(
    Array.from({ length: 5 }, async (_, n) => {
      await queue.turn(performance.now())
      begun.push({ n, loop: loops() })
      work(2 * times.sliceMs)
    }),
  )
  stop()
  expect(begun.map(({ n }) => n)).toEqual([0, 1, 2, 3, 4])
  expect(new Set(begun.map(({ loop }) => loop)).size).toBe(5)
})

test('requests whose handlers need little begin in the same turn of the event loop', async () => {
  const queue = createWorkQueue(createMetrics(), { ...times, sliceMs: 200, waitMsMax: 60_000 })
  await handle(queue.turn(performance.now()), 400)
  const { loops, stop } = countLoops()
  const begunIn = new Set<number>()
  await Promise.all(
    Array.from({ length: 100 }, async () => {
      await handle(queue.turn(performance.now()), 0)
      begunIn.add(loops())
    }),
  )
  stop()
  expect(begunIn.size).toBeLessThan(50)
})

test('while a request waits for too long, what arrives is refused', async () => {
  const metrics = createMetrics()
  const queue = createWorkQueue(metrics, { sliceMs: 10, readingMsMax: 3, arrivalWaitMsMax: 30, waitMsMax: 60_000 })
  await handle(queue.turn(performance.now()), 20)
  const turn = queue.turn(performance.now())
  work(40)
  expect(() => queue.requireArrivalRoom()).toThrow(
    expect.objectContaining({ code: 'unavailable', retryAfterSeconds: 1 }),
  )
  await turn
  queue.requireArrivalRoom()
  expect(await metrics.getSingleMetricAsString('sluice_http_shed_requests_total')).toContain('total 1')
})

test('a request that has waited for too long is refused, at its turn or before it is decompressed', async () => {
  const queue = createWorkQueue(createMetrics(), { ...times, waitMsMax: 30 })
  await handle(queue.turn(performance.now()), 20)
  const readAt = performance.now()
  const refused = expect(queue.turn(readAt)).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 })
  work(40)
  expect(() => queue.requireInTime(readAt)).toThrow(
    expect.objectContaining({ code: 'unavailable', retryAfterSeconds: 1 }),
  )
  await refused
})

test('requests without a body wait for their turn, too', async () => {
  const { loops, stop } = countLoops()
  const begun: number[] = []
  const key = generateKey('prod')
  const service = await startTestService(
    {
      routes: [
        {
          method: 'GET',
          path: '/heavy',
          scope: 'stats:read',
          limit: 'queries',
          handle: () => {
            begun.push(loops())
            work(2 * times.sliceMs)
            return Promise.resolve({ status: 200, data: {} })
          },
        },
      ],
    },
    keysInMemory({ [key]: { scopes: ['stats:read'] } }),
  )
  const connections = await Promise.all(Array.from({ length: 8 }, () => connectRaw(service.port)))
  // Once the server has answered a request, it has accepted the connection.
  for (const { send } of connections) send('GET /heavy HTTP/1.1\r\nHost: x\r\n\r\n')
  await Promise.all(connections.map(({ received }) => received(/^HTTP\/1.1 401 [^]*\}$/)))
  const request = `GET /heavy HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${key}\r\n\r\n`
  for (const { send } of connections) send(request)
  const answers = await Promise.all(connections.map(({ closed }) => closed))
  stop()
  await service.stop()
  for (const answer of answers) expect(answer).toContain('HTTP/1.1 200')
  expect(new Set(begun).size).toBe(8)
})
