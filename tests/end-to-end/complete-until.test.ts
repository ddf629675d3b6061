import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseProxy, clickHouseProxy } from '../support/clickhouse-proxy.ts'
import { type Client, client } from '../support/client.ts'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'

const siteId = 'shop'

/** The environment of a process on a machine whose clock is so many ms ahead. */
function clockOff(ms: number): Record<string, string> {
  const module = `const now = Date.now; Date.now = () => now() + ${ms}`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}` }
}

/** After this time a writer with a bug would report a time beyond an event that is not stored. */
const marginMs = acceptance.msMax + acceptance.clockMarginMs

describeWithServices('complete_until', () => {
  let cluster: Cluster
  let proxy: ClickHouseProxy
  let writer: ServiceProcess
  let sluice: Client
  /** The same through a gateway that freezes. */
  let frozenGateway: ServiceProcess
  let throughFrozen: Client
  const services: Promise<ServiceProcess>[] = []
  /** The `complete_until` of each response with the number of events until then. */
  const responses: { until: number; counted: number }[] = []
  const accepted: string[] = []
  let sent = 0

  beforeAll(async () => {
    cluster = await createCluster()
    proxy = await clickHouseProxy(cluster.clickHouseUrl)
    const { environment, key } = cluster
    const [query, gateway, frozen, first] = await Promise.all([
      start('query', { ...environment.query, ...clockOff(30_000) }),
      start('gateway', { ...environment.gateway, ...clockOff(-60_000) }),
      start('gateway', { ...environment.gateway, ...clockOff(60_000) }),
      start('writer', { ...environment.writer, ...clockOff(60_000), SLUICE_CLICKHOUSE_URL: proxy.url }),
    ])
    writer = first
    frozenGateway = frozen
    sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key })
    throughFrozen = client({ gatewayUrl: frozen.url, queryUrl: query.url, key })
  })

  afterAll(async () => {
    const started = await Promise.allSettled(services)
    await Promise.all(
      started.map(async (each) => {
        if (each.status === 'rejected') return
        // A failed test may leave a process frozen.
        each.value.signal('SIGCONT')
        await each.value.stop()
      }),
    )
    await proxy.close()
    await cluster.drop()
  })

  function start(...call: Parameters<typeof startService>): Promise<ServiceProcess> {
    const service = startService(...call)
    services.push(service)
    return service
  }

  /** Sends events to every partition, without timestamps, so that they have the time of their receipt. */
  async function send(through = sluice): Promise<number> {
    const ids = Array.from({ length: 16 }, () => `${sent++}`)
    const events = ids.map((id) => ({ site_id: siteId, event_type: 'x', event_id: id }))
    const { status } = await through.collectBatch(events)
    if (status === 202) accepted.push(...ids)
    return status
  }

  /** Returns `complete_until` and records the count up to that time, which must not change any more. */
  async function readCompleteUntil(): Promise<number> {
    const query = { site_id: siteId, metric: 'event_count', start_date: 31_536_000_000 }
    const { complete_until: until } = (await sluice.stats(query)).data
    if (until > 0) {
      const { data } = await sluice.stats({ ...query, end_date: until + 1 })
      responses.push({ until, counted: data.value })
    }
    return until
  }

  /** Reads `complete_until` repeatedly until it meets the condition. */
  async function readUntil(what: string, isEnough: (until: number) => boolean): Promise<void> {
    await waitUntil(async () => isEnough(await readCompleteUntil()), what)
  }

  it('passes an event only once the event is counted, also when a gateway freezes, its writer hangs, freezes or loses partitions, and clocks are off', async () => {
    const startedAt = Date.now()
    await waitUntil(async () => (await send()) === 202, 'an event is accepted')
    await readUntil('complete_until is known', (until) => until > 0)

    const gate = Promise.withResolvers<undefined>()
    proxy.hooks.onArrived = () => gate.promise
    const stuckAt = Date.now()
    const second = start('writer', { ...cluster.environment.writer, ...clockOff(-60_000) })
    for (let round = 0; round < 10; round++) {
      await send()
      expect(await readCompleteUntil()).toBeLessThan(stuckAt)
    }
    const sentAt = Date.now()
    await second
    writer.signal('SIGSTOP')
    await readUntil('a moment passes', () => Date.now() > sentAt + marginMs / 2)
    writer.signal('SIGCONT')
    await readUntil('an event would be passed by now', () => Date.now() > sentAt + marginMs + 1_500)
    expect(await readCompleteUntil()).toBeLessThan(stuckAt)

    gate.resolve(undefined)
    await readUntil('all are passed', (until) => until > sentAt)

    let isFrozen = true
    const frozen = Array.from({ length: 8 }, async () => {
      do await send(throughFrozen)
      while (isFrozen)
    })
    await send(throughFrozen)
    frozenGateway.signal('SIGSTOP')
    const frozenAt = Date.now()
    await readUntil('the time of the freeze is passed', (until) => until > frozenAt)
    isFrozen = false
    frozenGateway.signal('SIGCONT')
    await Promise.all(frozen)
    const endedAt = Date.now()
    await readUntil('all are passed again', (until) => until > endedAt)

    const clickHouse = openClickHouse(cluster.clickHouseUrl)
    const { rows: stored } = await clickHouse.query<{ id: string; at: number }>(
      'SELECT event_id AS id, toFloat64(toUnixTimestamp64Milli(received_at)) AS at FROM events FINAL',
    )
    await clickHouse.close()
    // An event that was answered 503 may nevertheless be stored, at any later time.
    const isAccepted = new Set(accepted)
    const storedAccepted = stored.filter(({ id }) => isAccepted.has(id))
    expect(storedAccepted).toHaveLength(accepted.length)
    for (const { until, counted } of responses) {
      expect(counted).toBeGreaterThanOrEqual(storedAccepted.filter(({ at }) => at <= until).length)
      expect(counted).toBeLessThanOrEqual(stored.filter(({ at }) => at <= until).length)
    }
    for (const { at } of stored) {
      expect(at).toBeGreaterThan(startedAt - acceptance.clockMarginMs)
      expect(at).toBeLessThan(endedAt + acceptance.clockMarginMs)
    }
  })
})
