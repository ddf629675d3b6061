import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/engines/processes'
import { describeWithKafka } from '@sluice/engines/testing'
import { audit, stopMerges, waitForDrain } from '../harness/audit.ts'
import { clickHouseProxy, type ClickHouseProxy } from '../harness/clickhouse-proxy.ts'
import { client } from '../harness/client.ts'
import { type Cluster, createCluster } from '../harness/cluster.ts'
import { sendAll } from '../harness/sender.ts'
import { type ServiceProcess, spawnService, startService } from '../harness/service-process.ts'

const events = 20_000

describeWithKafka('a writer that is frozen for longer than the session timeout', () => {
  let cluster: Cluster
  let proxies: ClickHouseProxy[]
  let gateway: ServiceProcess
  let query: ServiceProcess
  let frozen: ServiceProcess
  let other: ServiceProcess

  beforeAll(async () => {
    cluster = await createCluster()
    await stopMerges(cluster.clickHouseUrl)
    proxies = [await clickHouseProxy(cluster.clickHouseUrl), await clickHouseProxy(cluster.clickHouseUrl)]
    query = await startService('query', cluster.environment.query)
    gateway = await startService('gateway', cluster.environment.gateway)
  }, 60_000)

  afterAll(async () => {
    for (const service of [gateway, query, frozen, other]) service.signal('SIGKILL')
    await Promise.all(proxies.map((proxy) => proxy.close()))
    await cluster.drop()
  })

  it('while another takes over, and then goes on: nothing is stored twice', async () => {
    const [proxyOfFrozen, proxyOfOther] = proxies
    if (!proxyOfFrozen || !proxyOfOther) throw new Error('there are two proxies')
    const sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key: cluster.key })

    // The insert has reached ClickHouse when its writer freezes: it knows nothing of how that ended.
    const insertAtFreeze = new Promise<string>((resolve) => {
      proxyOfFrozen.hooks = {
        onInsertSent: (queryId) => {
          proxyOfFrozen.hooks = {}
          frozen.signal('SIGSTOP')
          resolve(queryId)
        },
      }
    })
    frozen = await spawnService('writer', { ...cluster.environment.writer, SLUICE_CLICKHOUSE_URL: proxyOfFrozen.url })
    const sending = sendAll(() => sluice, { seed: 7, events, batchEvents: 100, concurrency: 4, resendShare: 0.05 })
    const queryId = await insertAtFreeze

    // The other writer has taken over once it inserts under the same query id, which names the partition.
    const takenOver = new Promise<void>((resolve) => {
      proxyOfOther.hooks = {
        onInsertSent: (id) => {
          if (id === queryId) resolve()
        },
      }
    })
    other = await spawnService('writer', { ...cluster.environment.writer, SLUICE_CLICKHOUSE_URL: proxyOfOther.url })
    const ledger = await sending
    await takenOver
    const wokenInserts = new Set<string>()
    proxyOfFrozen.hooks = { onInsertSent: (id) => wokenInserts.add(id) }
    frozen.signal('SIGCONT')

    await waitForDrain(sluice, cluster.clickHouseUrl)
    expect(await audit(cluster.clickHouseUrl, ledger.acknowledged)).toEqual({
      lost: [],
      twice: [],
      altered: [],
      rows: events,
    })

    // Woken, it is a member of the group again and takes its share: it did go on.
    const more = await sendAll(() => sluice, { seed: 8, events: 10, batchEvents: 10, concurrency: 1, resendShare: 0 })
    expect(more.acknowledged).toHaveLength(10)
    await waitUntil(
      async () => {
        await sluice.collectBatch(
          Array.from({ length: 50 }, (_, n) => ({ site_id: 'after', event_type: 'x', event_id: `a${n}` })),
        )
        return wokenInserts.size > 0
      },
      'the woken writer inserts again',
      30_000,
    )
  }, 120_000)
})
