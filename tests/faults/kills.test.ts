import { afterEach, beforeEach, expect, it } from '@jest/globals'
import { findFreePort } from '@sluice/engines/processes'
import { describeWithKafka } from '@sluice/engines/testing'
import { audit, stopMerges, waitForDrain } from '../harness/audit.ts'
import { clickHouseProxy, type ClickHouseProxy } from '../harness/clickhouse-proxy.ts'
import { client } from '../harness/client.ts'
import { type Cluster, createCluster } from '../harness/cluster.ts'
import { sendAll } from '../harness/sender.ts'
import { type ServiceProcess, spawnService, startService } from '../harness/service-process.ts'

const events = 50_000
const nothing = { lost: [], twice: [], altered: [], rows: events }

describeWithKafka('kill -9 under load', () => {
  let cluster: Cluster
  let proxy: ClickHouseProxy
  let query: ServiceProcess
  let gateway: ServiceProcess
  let writer: ServiceProcess
  let gatewayPort: number
  const startGateway = () => spawnService('gateway', cluster.environment.gateway, { port: gatewayPort })
  const startWriter = () => spawnService('writer', { ...cluster.environment.writer, SLUICE_CLICKHOUSE_URL: proxy.url })

  beforeEach(async () => {
    cluster = await createCluster()
    await stopMerges(cluster.clickHouseUrl)
    proxy = await clickHouseProxy(cluster.clickHouseUrl)
    gatewayPort = await findFreePort()
    query = await startService('query', cluster.environment.query)
    gateway = await startService('gateway', cluster.environment.gateway, { port: gatewayPort })
    writer = await startWriter()
  }, 60_000)

  afterEach(async () => {
    for (const service of [gateway, writer, query]) service.signal('SIGKILL')
    await proxy.close()
    await cluster.drop()
  })

  it('of the gateway and the writer, between insert and commit too: nothing is lost, nothing is stored twice', async () => {
    const sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key: cluster.key })
    const kills = { gateway: 0, writer: 0, betweenInsertAndCommit: 0 }

    const killGateway = async (): Promise<void> => {
      kills.gateway++
      gateway.signal('SIGKILL')
      await gateway.exited
      gateway = await startGateway()
    }
    const killWriter = async (): Promise<void> => {
      kills.writer++
      writer.signal('SIGKILL')
      await writer.exited
      writer = await startWriter()
    }
    /** Kills the writer when ClickHouse has stored a batch, before the writer can hear of it and commit. */
    const killWriterAfterInsert = (): Promise<void> =>
      new Promise((resolve, reject) => {
        proxy.hooks = {
          onInsertAnswered: () => {
            proxy.hooks = {}
            kills.betweenInsertAndCommit++
            killWriter().then(resolve, reject)
            return false
          },
        }
      })

    const schedule: { at: number; fault: () => Promise<void> }[] = [
      { at: 0.1, fault: killWriterAfterInsert },
      { at: 0.2, fault: killGateway },
      { at: 0.35, fault: killWriter },
      { at: 0.5, fault: killGateway },
      { at: 0.6, fault: killWriterAfterInsert },
      { at: 0.8, fault: killGateway },
    ]
    const faults: Promise<void>[] = []
    const ledger = await sendAll(() => sluice, {
      seed: 20_261_121,
      events,
      batchEvents: 100,
      concurrency: 8,
      resendShare: 0.05,
      onProgress: (acknowledged) => {
        const due = schedule[0]
        if (due && acknowledged >= due.at * events) {
          schedule.shift()
          faults.push(due.fault())
        }
      },
    })
    await Promise.all(faults)
    expect(kills.gateway).toBe(3)
    expect(kills.writer).toBe(3)
    expect(kills.betweenInsertAndCommit).toBeGreaterThanOrEqual(1)
    expect(ledger.resent).toBeGreaterThan(0)
    expect(ledger.repeats).toBeGreaterThan(0)
    expect(ledger.acknowledged).toHaveLength(events)

    await waitForDrain(sluice, cluster.clickHouseUrl)
    expect(await audit(cluster.clickHouseUrl, ledger.acknowledged)).toEqual(nothing)
  }, 180_000)
})
