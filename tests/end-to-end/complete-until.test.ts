import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { openClickHouse } from '@sluice/clickhouse/client'
import { acceptance } from '@sluice/contracts/acceptance'
import { waitUntil } from '@sluice/engines/processes'
import { type ClickHouseProxy, clickHouseProxy } from '../harness/clickhouse-proxy.ts'
import { client, type Client } from '../harness/client.ts'
import { type Cluster, createCluster } from '../harness/cluster.ts'
import { describeWithServices } from '../harness/describe-with-services.ts'
import { type ServiceProcess, startService } from '../harness/service-process.ts'

const siteId = 'shop'
/** A writer that were wrong would pass an event after so long. */
const marginMs = acceptance.msMax + acceptance.clockSkewMsMax

describeWithServices('complete_until', () => {
  let cluster: Cluster
  let proxy: ClickHouseProxy
  let writer: ServiceProcess
  let sluice: Client
  const services: Promise<ServiceProcess>[] = []
  /** How many events answers counted that were received until then. */
  const answers: { until: number; counted: number }[] = []
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

  /** Sends events that every partition gets some of. Without a time of their own they have that of their receipt. */
  async function send(): Promise<void> {
    const ids = Array.from({ length: 16 }, (_, n) => `${accepted.length + n}`)
    const { status } = await sluice.collectBatch(ids.map((id) => ({ site_id: siteId, event_type: 'x', event_id: id })))
    expect(status).toBe(202)
    accepted.push(...ids)
  }

  /** Until when all is complete; notes what is counted of that time, which may not change any more. */
  async function ask(): Promise<number> {
    const question = { site_id: siteId, metric: 'event_count', start_date: 31_536_000_000 }
    const { complete_until: until } = (await sluice.stats(question)).data
    if (until > 0) {
      const { data } = await sluice.stats({ ...question, end_date: until + 1 })
      answers.push({ until, counted: data.value })
    }
    return until
  }

  /** Asks again and again, until that is so. */
  async function askUntil(what: string, isEnough: (until: number) => boolean): Promise<void> {
    await waitUntil(async () => isEnough(await ask()), what, 30_000)
  }

  it('passes an event once it is counted: not while its writer is stuck, frozen or loses partitions', async () => {
    await send()
    await askUntil('writers told', (until) => until > 0)

    const gate = Promise.withResolvers<undefined>()
    proxy.hooks.onArrived = () => gate.promise
    const stuckAt = Date.now()
    const second = start('writer', cluster.environment.writer)
    for (let round = 0; round < 10; round++) {
      await send()
      expect(await ask()).toBeLessThan(stuckAt)
    }
    const sentAt = Date.now()
    await second
    writer.signal('SIGSTOP')
    await askUntil('a moment passes', () => Date.now() > sentAt + marginMs / 2)
    writer.signal('SIGCONT')
    await askUntil('an event would be passed by now', () => Date.now() > sentAt + marginMs + 1_500)
    expect(await ask()).toBeLessThan(stuckAt)

    gate.resolve(undefined)
    await askUntil('all are passed', (until) => until > sentAt)

    const clickHouse = openClickHouse(cluster.clickHouseUrl)
    const { rows: stored } = await clickHouse.query<{ id: string; at: number }>(
      'SELECT event_id AS id, toFloat64(toUnixTimestamp64Milli(received_at)) AS at FROM events FINAL',
    )
    await clickHouse.close()
    expect(stored.map(({ id }) => id).sort()).toStrictEqual([...accepted].sort())
    for (const { until, counted } of answers) {
      expect({ until, counted }).toStrictEqual({ until, counted: stored.filter(({ at }) => at <= until).length })
    }
    expect(answers.at(-1)?.counted).toBe(accepted.length)
  }, 60_000)
})
