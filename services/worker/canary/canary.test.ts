import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { leaseMetrics } from '@sluice/leases/metrics'
import { canaryStore } from '@sluice/postgres/canary'
import type { Clock } from '@sluice/runtime/clock'
import { newId } from '@sluice/runtime/ids'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import { sleep } from '@sluice/runtime/sleep'
import { supervise } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type CapturedLogger, capturedLogger } from '../../../tests/support/captured-logger.ts'
import { startGateway, type TestGateway } from '../../../tests/support/gateway.ts'
import { createImportRig, type ImportRig } from '../../../tests/support/import-rig.ts'
import { canary } from './canary.ts'
import { gatewaySender, type Sender } from './gateway-sender.ts'

let rig: ImportRig
let gateway: TestGateway
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  rig = await createImportRig()
  gateway = await startGateway({ log: rig.log })
})

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

afterAll(async () => {
  await gateway.stop()
  await rig.drop()
})

/** A canary waits for its intervals of 10 s. All canaries share the clock, by which they take their job. */
const startedAt = Date.now()
const fastClock: Clock = {
  now: () => startedAt + 4 * (Date.now() - startedAt),
  sleep: (ms, signal) => sleep(ms / 4, signal),
}

interface RunningCanary extends CapturedLogger {
  siteId: string
  /** The events of a state so far. */
  count: (state: string) => Promise<number>
}

/** Runs a canary for a site of its own until the test ends, by the fast clock. */
async function startCanary({ key = gateway.keys.prod, deadlineMs = 240_000, siteId = newId('site') } = {}) {
  const captured = capturedLogger()
  const metrics = createMetrics()
  const stopping = new AbortController()
  const component = canary({ siteId, sender: gatewaySender(gateway.service.url, key), deadlineMs })(
    { postgres: rig.postgres, eventReader: queryReader(rig.clickHouse) },
    {
      logger: captured.logger,
      clock: fastClock,
      leaseMetrics: leaseMetrics(metrics),
      metrics,
      stopping: stopping.signal,
    },
  )
  const supervisor = supervise([component], captured.logger)
  await supervisor.start()
  stops.push(async () => {
    stopping.abort()
    await supervisor.stop()
  })
  return { ...captured, siteId, count: (state: string) => countOf(metrics, state) } satisfies RunningCanary
}

async function countOf(metrics: Metrics, state: string): Promise<number> {
  const { values } = (await metrics.getSingleMetric('sluice_canary_events_total')?.get()) ?? { values: [] }
  return values.find(({ labels }) => labels.state === state)?.value ?? NaN
}

async function copies(siteId: string): Promise<{ id: string; rows: number }[]> {
  const { rows } = await rig.clickHouse.query<{ id: string; rows: number }>(
    'SELECT event_id AS id, count() AS rows FROM events WHERE site_id = {site:String} GROUP BY id ORDER BY id',
    { site: siteId },
  )
  return rows
}

const messages = (running: RunningCanary, level: string) =>
  running
    .lines()
    .filter((line) => line.level === level)
    .map(({ msg }) => msg)

/** Sends an event again while a gateway with too much to do refuses it, or does not answer in time. */
const patient =
  (send: Sender): Sender =>
  async (event, signal) => {
    let result = await send(event, signal)
    while (result.status === null || result.status === 503) result = await send(event, signal)
    return result
  }

test('a worker sends an event every 10 s to a gateway, and finds each in the event store', async () => {
  const siteId = newId('site')
  const metrics = createMetrics()
  stops.push(await rig.startWriter())
  stops.push(
    await rig.startWorker(metrics, {
      deleteEveryMs: 0,
      canary: { siteId, sender: patient(gatewaySender(gateway.service.url, gateway.keys.prod)) },
    }),
  )
  await waitUntil(async () => (await countOf(metrics, 'found')) >= 2, 'two events are found')
  const states = ['sent', 'acknowledged', 'lost', 'recovered', 'doubled']
  const [sent, acknowledged, ...others] = await Promise.all(states.map((state) => countOf(metrics, state)))
  expect(acknowledged).toBe(sent)
  expect(others).toStrictEqual([0, 0, 0])
  const text = await metrics.metrics()
  expect(Number(/^sluice_canary_found_seconds_count (\d+)$/m.exec(text)?.[1])).toBeGreaterThanOrEqual(2)
  const times = (await copies(siteId)).map(({ id, rows }) => [Number(id.replace('canary-', '')) % 10_000, rows])
  expect(new Set(times.map(String))).toStrictEqual(new Set(['0,1']))
})

test('an event counts as lost after its deadline and not before, and as recovered once it is stored', async () => {
  const running = await startCanary({ deadlineMs: 24_000 })
  await waitUntil(async () => (await running.count('acknowledged')) >= 1, 'an event is acknowledged')
  expect([await running.count('found'), await running.count('lost')]).toStrictEqual([0, 0])
  await waitUntil(async () => (await running.count('lost')) >= 1, 'the event is lost')
  const [line] = running.lines().filter(({ msg }) => msg === 'acknowledged canary event not stored')
  expect(line).toMatchObject({ level: 'error', site: running.siteId, event_id: expect.stringMatching(/^canary-\d+$/) })
  expect(line?.seconds).toBeGreaterThanOrEqual(24)
  expect([await running.count('found'), await running.count('recovered')]).toStrictEqual([0, 0])
  stops.push(await rig.startWriter())
  await waitUntil(async () => (await running.count('recovered')) >= 1, 'the event is found late')
  expect(messages(running, 'warn')).toContain('canary event stored late')
})

test('an event that is stored twice is counted, once', async () => {
  await rig.clickHouse.command('SYSTEM STOP MERGES events')
  stops.push(await rig.startWriter())
  const running = await startCanary()
  await waitUntil(async () => (await running.count('found')) >= 1, 'an event is found')
  const [first] = await copies(running.siteId)
  await rig.clickHouse.command('INSERT INTO events SELECT * FROM events WHERE site_id = {site:String}', {
    params: { site: running.siteId },
  })
  expect(await copies(running.siteId)).toContainEqual({ id: first?.id, rows: 2 })
  await waitUntil(async () => (await running.count('doubled')) >= 1, 'the copy is seen')
  const found = await running.count('found')
  await waitUntil(async () => (await running.count('found')) > found, 'another turn has passed')
  expect(await running.count('doubled')).toBe(1)
  expect(messages(running, 'error')).toStrictEqual(['canary event stored more than once'])
})

test('a key that is refused is a log line that says what to check, without the key, and nothing is lost', async () => {
  const key = generateKey('prod')
  const running = await startCanary({ key, deadlineMs: 1_000 })
  await waitUntil(async () => (await running.count('sent')) >= 2, 'two events are sent')
  const warnings = running.lines().filter(({ level }) => level === 'warn')
  expect(warnings).toMatchObject([
    {
      status: 401,
      error: 'Invalid API key',
      site: running.siteId,
      msg: 'canary event not accepted: check SLUICE_CANARY_API_KEY and the site of its key',
    },
  ])
  expect(running.text()).not.toContain(key)
  expect([await running.count('acknowledged'), await running.count('lost')]).toStrictEqual([0, 0])
})

test('an event whose worker has ended is looked for by the next one', async () => {
  const siteId = newId('site')
  const acknowledgedAt = Date.now() - 120_000
  const store = canaryStore(rig.postgres)
  await store.add({ siteId, eventId: 'canary-1', timestamp: acknowledgedAt, acknowledgedAt })
  const running = await startCanary({ siteId })
  await waitUntil(async () => (await running.count('lost')) === 1, 'the event counts as lost')
  const dayAgo = Date.now() - 25 * 3_600_000
  await store.add({ siteId, eventId: 'canary-0', timestamp: dayAgo, acknowledgedAt: dayAgo })
  const ids = async () => (await store.list(siteId)).map(({ eventId }) => eventId)
  await waitUntil(async () => !(await ids()).includes('canary-0'), 'an event of yesterday is given up')
  expect(await ids()).toContain('canary-1')
})
