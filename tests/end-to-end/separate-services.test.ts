import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { type Client, client } from '../support/client.ts'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { type ServiceProcess, spawnService, startService } from '../support/service-process.ts'
import { startStopwatch } from '../support/stopwatch.ts'
import { expectWebLogAnswers, sendWebLog } from './web-log.ts'

describeWithServices('gateway, writer, query and worker as separate processes', () => {
  let cluster: Cluster
  let services: Record<'gateway' | 'writer' | 'query' | 'worker', ServiceProcess>
  let sluice: Client

  beforeAll(async () => {
    cluster = await createCluster()
    const query = await startService('query', cluster.environment.query)
    const gateway = await startService('gateway', cluster.environment.gateway)
    const writer = await startService('writer', cluster.environment.writer)
    const worker = await startService('worker', cluster.environment.worker)
    services = { gateway, writer, query, worker }
    sluice = client({ gatewayUrl: gateway.url, queryUrl: query.url, key: cluster.key })
  })

  afterAll(async () => {
    await Promise.all(Object.values(services).map((service) => service.stop()))
    await cluster.drop()
  })

  it('answer every query on the web log as expected, however often the log was sent', async () => {
    await sendWebLog(sluice)
    await expectWebLogAnswers(sluice)
    await sendWebLog(sluice)
    await expectWebLogAnswers(sluice)
  })

  it('take the events of npm run example at the gateway, and count them at the query service', async () => {
    const { gateway, query } = services
    const program = fileURLToPath(new URL('../../docs/example/send-web-log.ts', import.meta.url))
    const run = (env: Record<string, string>) =>
      promisify(execFile)(process.execPath, [program], {
        env: { PATH: process.env.PATH, SLUICE_KEY: cluster.key, ...env },
      })
    const { stdout } = await run({ SLUICE_URL: query.url, SLUICE_COLLECT_URL: gateway.url })
    expect(stdout).toContain('Counted 10000 of 10000 events.')
    expect(stdout).toContain(`${query.url}/docs`)
    await expect(run({ SLUICE_URL: gateway.url })).rejects.toThrow(`${gateway.url} answers no queries: set SLUICE_URL`)
    await expect(run({ SLUICE_URL: query.url })).rejects.toThrow(`${query.url} takes no events: set SLUICE_COLLECT_URL`)
  })

  it.each(['gateway', 'writer', 'query', 'worker'] as const)(
    'include %s, whose /healthz succeeds and which exits with 0 within 10 s of a SIGTERM',
    async (name) => {
      const health = await fetch(`${services[name].url}/healthz`)
      expect([health.status, await health.json()]).toEqual([200, expect.objectContaining({ success: true })])
      const elapsedMs = startStopwatch()
      expect(await services[name].stop()).toBe(0)
      expect(elapsedMs()).toBeLessThan(10_000)
      services[name] = await startService(name, cluster.environment[name])
    },
  )

  it.each(['gateway', 'writer', 'query', 'worker'] as const)(
    'include %s, which names all missing variables in one error',
    async (name) => {
      const needed = Object.keys(cluster.environment[name]).filter((variable) => variable !== 'SLUICE_ADMIN_KEY')
      const service = await spawnService(name, { SLUICE_LOG_LEVEL: 'loud' })
      expect(await service.exited).toBe(1)
      for (const variable of [...needed, 'SLUICE_LOG_LEVEL']) expect(service.output()).toContain(variable)
    },
  )

  it('refuse a schema that was not migrated and name the command to run', async () => {
    const { SLUICE_CLICKHOUSE_URL: url = '', ...rest } = cluster.environment.writer
    for (const path of ['/default', '/test_that_nobody_made']) {
      const writer = await spawnService('writer', { ...rest, SLUICE_CLICKHOUSE_URL: new URL(path, url).href })
      expect(await writer.exited).toBe(1)
      expect(writer.output()).toContain('npm run migrate')
    }
  })

  it('refuse a log that was not migrated and name the command to run', async () => {
    const { SLUICE_LOG_URL: url = '', ...rest } = cluster.environment.gateway
    const gateway = await spawnService('gateway', { ...rest, SLUICE_LOG_URL: `${url}.second` })
    expect(await gateway.exited).toBe(1)
    expect(gateway.output()).toContain('npm run migrate')
  })
})
