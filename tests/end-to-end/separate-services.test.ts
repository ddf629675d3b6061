import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { client, type Client } from '../harness/client.ts'
import { type Cluster, createCluster } from '../harness/cluster.ts'
import { describeWithServices } from '../harness/describe-with-services.ts'
import { type ServiceProcess, spawnService, startService } from '../harness/service-process.ts'
import { expectWebLogAnswers, sendWebLog } from './web-log.ts'

describeWithServices('gateway, writer and query, each on its own, on Kafka, ClickHouse and Postgres', () => {
  let cluster: Cluster
  let services: Record<'gateway' | 'writer' | 'query', ServiceProcess>
  let sluice: Client

  beforeAll(async () => {
    cluster = await createCluster()
    const query = await startService('query', cluster.environment.query)
    const gateway = await startService('gateway', cluster.environment.gateway)
    const writer = await startService('writer', cluster.environment.writer)
    services = { gateway, writer, query }
    sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key: cluster.key })
  }, 60_000)

  afterAll(async () => {
    await Promise.all(Object.values(services).map((service) => service.stop()))
    await cluster.drop()
  })

  it('answer every question about the web log as expected, however often it was sent', async () => {
    await sendWebLog(sluice)
    await expectWebLogAnswers(sluice)
    await sendWebLog(sluice)
    await expectWebLogAnswers(sluice)
  }, 60_000)

  it.each(['gateway', 'writer', 'query'] as const)(
    '%s: /healthz says alive, and SIGTERM ends it with 0 within 10 s',
    async (name) => {
      const health = await fetch(`${services[name].url}/healthz`)
      expect([health.status, await health.json()]).toEqual([200, expect.objectContaining({ success: true })])
      const began = Date.now()
      expect(await services[name].stop()).toBe(0)
      expect(Date.now() - began).toBeLessThan(10_000)
      services[name] = await startService(name, cluster.environment[name])
    },
  )

  it.each(['gateway', 'writer', 'query'] as const)(
    '%s names every variable that it lacks, all at once',
    async (name) => {
      const needed = Object.keys(cluster.environment[name]).filter((variable) => variable !== 'SLUICE_ADMIN_KEY')
      const service = await spawnService(name, { SLUICE_LOG_LEVEL: 'loud' })
      expect(await service.exited).toBe(1)
      for (const variable of [...needed, 'SLUICE_LOG_LEVEL']) expect(service.output()).toContain(variable)
    },
  )

  it('a service refuses a schema that nobody migrated, and says what to run', async () => {
    const { SLUICE_CLICKHOUSE_URL: url = '', ...rest } = cluster.environment.writer
    for (const path of ['/default', '/test_that_nobody_made']) {
      const writer = await spawnService('writer', { ...rest, SLUICE_CLICKHOUSE_URL: new URL(path, url).href })
      expect(await writer.exited).toBe(1)
      expect(writer.output()).toContain('npm run migrate')
    }
  })
})
