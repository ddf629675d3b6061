import { Agent, type ClientRequestArgs, request } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { sleep } from '@sluice/runtime/sleep'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { findFreePort } from '../support/free-port.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'
import { startStopwatch } from '../support/stopwatch.ts'
import { type TcpProxy, tcpProxy } from '../support/tcp-proxy.ts'

/** The time limit of every service except the query service, in ms. */
const stopMsMax = 10_000

describeWithServices('a process that is stopped', () => {
  let cluster: Cluster

  beforeAll(async () => {
    cluster = await createCluster()
    // The query service takes over the admin key.
    await (await startService('query', cluster.environment.query)).stop()
  })

  afterAll(async () => {
    await cluster.drop()
  })

  function startGateway(drainSeconds: string): Promise<ServiceProcess> {
    return startService('gateway', { ...cluster.environment.gateway, SLUICE_DRAIN_SECONDS: drainSeconds })
  }

  it('fails no request of clients of a load balancer, whether they keep their connections or not', async () => {
    const gateways = [await startGateway('4'), await startGateway('4')] as const
    const closers: (() => unknown)[] = []
    closers.push(...gateways.map((gateway) => () => gateway.stop()))
    const balancer = await startBalancer(gateways.map(({ url }) => url))
    closers.push(balancer.close)
    const keepAlive = new Agent({ keepAlive: true, maxSockets: 4 })
    closers.push(() => keepAlive.destroy())
    const kept = sendEvents(balancer.port, cluster.key, { agent: keepAlive, concurrency: 4 })
    const opened = sendEvents(balancer.port, cluster.key, { agent: false, concurrency: 2 })
    const isAnsweredAgain = async (): Promise<void> => {
      const answers = [kept, opened].map(({ outcomes }) => outcomes.length)
      await waitUntil(
        () => [kept, opened].every(({ outcomes }, index) => outcomes.length > (answers[index] ?? 0) + 50),
        'both clients are answered',
      )
    }
    try {
      await isAnsweredAgain()
      expect(await gateways[0].stop()).toBe(0)
      await isAnsweredAgain()
    } finally {
      await Promise.all([kept.stop(), opened.stop()])
      for (const close of closers.reverse()) await close()
    }
    expect([...new Set([...kept.outcomes, ...opened.outcomes])]).toEqual([202])
  })

  // These wait most of the time, each with a process and a proxy of its own.
  it.concurrent.each(['gateway', 'query', 'writer', 'worker'] as const)(
    'ends with 0 within 10 s while Postgres hangs: %s',
    async (name) => {
      const environment = cluster.environment[name]
      const postgres = await tcpProxy(environment.SLUICE_POSTGRES_URL ?? '')
      const service = await startService(name, { ...environment, SLUICE_POSTGRES_URL: postgres.url })
      try {
        await useKey(service, cluster.key)
        postgres.freeze()
        // By now every poll of Postgres hangs.
        await sleep(1_500)
        const elapsedMs = startStopwatch()
        // A process that takes longer by its own clock ends with 1.
        expect(await service.stop()).toBe(0)
        expect(elapsedMs()).toBeLessThan(stopMsMax)
      } finally {
        await postgres.close()
      }
    },
  )

  it.concurrent('answers a question that takes longer than 10 s: query', async () => {
    const { environment, key } = cluster
    const clickHouse: TcpProxy = await tcpProxy(environment.query.SLUICE_CLICKHOUSE_URL ?? '')
    const metricsPort = await findFreePort()
    const query = await startService('query', {
      ...environment.query,
      SLUICE_CLICKHOUSE_URL: clickHouse.url,
      SLUICE_METRICS_PORT: String(metricsPort),
    })
    const metricsUrl = `http://127.0.0.1:${metricsPort}/metrics`
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    try {
      await fetch(`${query.url}/api/v1/sites`, { method: 'POST', headers, body: '{"site_id":"stop"}' })
      clickHouse.freeze()
      const answer = fetch(`${query.url}/api/v1/stats?site_id=stop&metric=event_count`, { headers })
      await waitUntil(async () => (await runningQuestions(metricsUrl)) === 1, 'the question runs')
      const stopped = query.stop()
      await sleep(stopMsMax)
      await clickHouse.mend()
      expect((await answer).status).toBe(200)
      expect(await stopped).toBe(0)
    } finally {
      await clickHouse.close()
    }
  })
})

/** Uses the key, so that the service has something to write to Postgres when it stops. */
async function useKey({ url }: ServiceProcess, key: string): Promise<void> {
  await (await fetch(`${url}/api/v1/session`, { headers: { Authorization: `Bearer ${key}` } })).text()
  await (await fetch(`${url}/collect`, { method: 'POST', headers: { Authorization: `Bearer ${key}` } })).text()
}

/** How many questions ClickHouse is working on. */
async function runningQuestions(metricsUrl: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text()
  return Number(/^sluice_query_questions\{state="running"\} (\d+)$/m.exec(text)?.[1])
}

/**
 * A load balancer for TCP: new connections go in turn to the processes that were ready at the last probe. It does not
 * parse HTTP, so all requests of a connection go to the same process.
 */
async function startBalancer(urls: readonly string[]): Promise<{ port: number; close: () => Promise<void> }> {
  let ready: readonly string[] = urls
  let turn = 0
  const probing = setInterval(() => {
    void Promise.all(urls.map(async (url) => ((await isReady(url)) ? [url] : []))).then((found) => {
      // When all probes fail, the balancer keeps using the processes that it knows.
      if (found.flat().length > 0) ready = found.flat()
    })
  }, 500)
  const server = createServer((client) => {
    const target = connect(Number(new URL(ready[turn++ % ready.length] ?? '').port), '127.0.0.1')
    for (const socket of [client, target]) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        target.destroy()
      })
    }
    client.pipe(target)
    target.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      clearInterval(probing)
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`)
    await response.arrayBuffer()
    return response.ok
  } catch {
    return false
  }
}

/** Sends events one after the other on each of some connections; `outcomes` are statuses or messages of failures. */
function sendEvents(
  port: number,
  key: string,
  { agent, concurrency }: { agent: ClientRequestArgs['agent']; concurrency: number },
): { outcomes: unknown[]; stop: () => Promise<unknown> } {
  const outcomes: unknown[] = []
  let isStopping = false
  const options = {
    port,
    agent,
    method: 'POST',
    path: '/collect',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
  }
  const send = (): Promise<unknown> =>
    new Promise((resolve) => {
      const outgoing = request(options, (response) => {
        response.resume()
        response.on('error', (error) => resolve(error.message))
        response.on('end', () => resolve(response.statusCode))
      })
      outgoing.on('error', (error) => resolve(error.message))
      outgoing.end('{"site_id":"stop","event_type":"page_view"}')
    })
  const work = async (): Promise<void> => {
    while (!isStopping) outcomes.push(await send())
  }
  const done = Promise.all(Array.from({ length: concurrency }, work))
  return {
    outcomes,
    stop: () => {
      isStopping = true
      return done
    },
  }
}
