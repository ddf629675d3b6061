import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { type Cluster, createCluster } from '../harness/cluster.ts'
import { describeWithServices } from '../harness/describe-with-services.ts'
import { type ServiceProcess, startService } from '../harness/service-process.ts'

const clients = 1_000
const limit = 3_000
/** Of each client; twice the limit in all. */
const requests = 6

describeWithServices('two gateways', () => {
  let cluster: Cluster
  let query: ServiceProcess
  let gateways: ServiceProcess[]

  beforeAll(async () => {
    cluster = await createCluster()
    query = await startService('query', cluster.environment.query)
    gateways = await Promise.all([1, 2].map(() => startService('gateway', cluster.environment.gateway)))
  }, 60_000)

  afterAll(async () => {
    await Promise.all([...gateways, query].map((service) => service.stop()))
    await cluster.drop()
  })

  const post = (url: string, key: string, body: unknown) =>
    fetch(url, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })

  it(`share a key's limit: of ${clients} clients' events as many are taken as it allows, ± 1 %`, async () => {
    const made = await post(`${query.url}/api/v1/settings/keys`, cluster.key, {
      name: 'limited',
      rate_limits: { events_per_minute: limit },
    })
    const { key } = ((await made.json()) as { data: { key: string } }).data
    const statuses: Record<number, number> = {}
    const resets = new Set<string>()
    let counted = 0
    const client = async (n: number): Promise<void> => {
      const { url = '' } = gateways[n % gateways.length] ?? {}
      for (let sent = 0; sent < requests; sent++) {
        const response = await post(`${url}/collect`, key, { site_id: 'limits', event_type: 'view' })
        await response.arrayBuffer()
        statuses[response.status] = (statuses[response.status] ?? 0) + 1
        if (response.headers.has('x-ratelimit-reset')) counted++
        resets.add(response.headers.get('x-ratelimit-reset') ?? '')
      }
    }
    const beganAt = Date.now()
    await Promise.all(Array.from({ length: clients }, (_, n) => client(n)))
    // Else a second window has begun, and the numbers mean nothing.
    expect(Date.now() - beganAt).toBeLessThan(55_000)
    const { 202: taken = 0, 429: refused = 0, ...others } = statuses
    expect(counted).toBe(clients * requests)
    // A busy machine's log may be late with an event; it has been counted all the same.
    expect(Object.keys(others).filter((status) => status !== '503')).toStrictEqual([])
    expect(taken).toBeGreaterThan(limit / 2)
    expect(Math.abs(clients * requests - refused - limit)).toBeLessThanOrEqual(limit / 100)
    // One window, whichever gateway was asked: its end differs by the rounding alone.
    expect(resets.size).toBeLessThanOrEqual(2)
  }, 120_000)
})
