import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { acceptance } from '@sluice/event-log/acceptance-deadline'
import { openClickHouse } from '@sluice/event-store/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ClickHouseProxy, clickHouseProxy } from '../support/clickhouse-proxy.ts'
import { type Client, client } from '../support/client.ts'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'

const siteId = 'shop'
/** After this time a writer with a bug would report a time beyond an event that is not stored. */
const marginMs = acceptance.msMax + acceptance.clockSkewMsMax

describeWithServices('complete_until', () => {
  let cluster: Cluster
  let proxy: ClickHouseProxy
  let writer: ServiceProcess
  let sluice: Client
  const services: Promise<ServiceProcess>[] = []
  /** The `complete_until` of each response with the number of events until then. */
  const responses: { until: number; counted: number }[] = []
  const accepted: string[] = []

  beforeAll(async () => {
    cluster = await createCluster()
    proxy = await clickHouseProxy(cluster.clickHouseUrl)
    const { environment, key } = cluster
    const [query, gateway, first] = await Promise.all([
      start('query', environment.query),
      start('gateway', environment.gateway),
      start('writer', { ...environment.writer, SLUICE_CLICKHOUSE_URL: proxy.url }),
    ])
    writer = first
    sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key })
  }, 60_000)

  afterAll(async () => {
    const started = await Promise.allSettled(services)
    await Promise.all(started.flatMap((each) => (each.status === 'fulfilled' ? [each.value.stop()] : [])))
    await proxy.close()
    await cluster.drop()
  })

  function start(...call: Parameters<typeof startService>): Promise<ServiceProcess> {
    const service = startService(...call)
    services.push(service)
    return service
  }

  /** Sends events to every partition, without timestamps, so that they have the time of their receipt. */
  async function send(): Promise<void> {
    const ids = Array.from({ length: 16 }, (_, n) => `${accepted.length + n}`)
    const { status } = await sluice.collectBatch(ids.map((id) => ({ site_id: siteId, event_type: 'x', event_id: id })))
    expect(status).toBe(202)
    accepted.push(...ids)
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

  it('passes an event only once the event is counted, also when its writer hangs, freezes or loses partitions', async () => {
    await send()
    await readUntil('complete_until is known', (until) => until > 0)

    const gate = Promise.withResolvers<undefined>()
    proxy.hooks.onArrived = () => gate.promise
    const stuckAt = Date.now()
    const second = start('writer', cluster.environment.writer)
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

    const clickHouse = openClickHouse(cluster.clickHouseUrl)
    const { rows: stored } = await clickHouse.query<{ id: string; at: number }>(
      'SELECT event_id AS id, toFloat64(toUnixTimestamp64Milli(received_at)) AS at FROM events FINAL',
    )
    await clickHouse.close()
    expect(stored.map(({ id }) => id).sort()).toStrictEqual([...accepted].sort())
    for (const { until, counted } of responses) {
      expect({ until, counted }).toStrictEqual({ until, counted: stored.filter(({ at }) => at <= until).length })
    }
    expect(responses.at(-1)?.counted).toBe(accepted.length)
  }, 60_000)
})
