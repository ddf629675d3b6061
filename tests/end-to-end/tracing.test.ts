import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { findFreePort } from '../support/free-port.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'
import { type CollectedSpan, startTraceCollector, type TraceCollector } from '../support/trace-collector.ts'

type Name = 'gateway' | 'writer' | 'query' | 'worker'

const site = 'traced'

describeWithServices('tracing', () => {
  let cluster: Cluster
  let collector: TraceCollector
  let running: ServiceProcess[] = []

  beforeAll(async () => {
    cluster = await createCluster()
    // The query service takes over the admin key.
    const query = await startService('query', cluster.environment.query)
    await query.stop()
  })

  beforeEach(async () => {
    collector = await startTraceCollector()
  })

  afterEach(async () => {
    await stopAll()
    await collector.close()
  })

  afterAll(async () => {
    await cluster.drop()
  })

  async function start(name: Name, more: Record<string, string> = {}): Promise<ServiceProcess> {
    const environment = {
      ...cluster.environment[name],
      SLUICE_LOG_LEVEL: 'info',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      ...more,
    }
    const service = await startService(name, environment)
    running.push(service)
    return service
  }

  /** Stops the services, which send their remaining spans. Returns the exit codes. */
  async function stopAll(): Promise<unknown[]> {
    const stopped = running
    running = []
    return Promise.all(stopped.map((service) => service.stop()))
  }

  async function call(url: string, { traceparent, body }: { traceparent?: string; body?: object } = {}) {
    const response = await fetch(url, {
      method: body ? 'POST' : 'GET',
      headers: {
        Authorization: `Bearer ${cluster.key}`,
        'Content-Type': 'application/json',
        ...(traceparent !== undefined && { traceparent }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as { data?: Record<string, unknown> } }
  }

  const spanOf = (traceId: string, name: string): CollectedSpan => {
    const found = collector.spans.find((span) => span.traceId === traceId && span.name === name)
    if (!found) throw new Error(`no span ${name} of ${traceId} in ${JSON.stringify(collector.spans, undefined, 1)}`)
    return found
  }

  const childrenOf = ({ traceId, spanId }: CollectedSpan): string[] =>
    collector.spans.filter((span) => span.traceId === traceId && span.parentSpanId === spanId).map(({ name }) => name)

  /**
   * The first publish of a gateway has to find the log's brokers, and may take too long. So it is sent without a trace.
   */
  const warmUp = async ({ url }: ServiceProcess): Promise<void> => {
    const traceparent = sampled().traceparent.replace(/01$/, '00')
    const body = { site_id: 'first', event_type: 'x', event_id: 'first' }
    const isSent = async () => (await call(`${url}/collect`, { traceparent, body })).status === 202
    await waitUntil(isSent, 'the gateway publishes')
  }

  it('follows an event from the sender to its insert, a question to its statements, and a job', async () => {
    const query = await start('query')
    const gateway = await start('gateway')
    const writer = await start('writer')
    await start('worker')
    const [event, question, order] = [sampled(), sampled(), sampled()]
    const statsOf = (siteId: string) => `${query.url}/api/v1/stats?site_id=${siteId}&metric=event_count`
    await warmUp(gateway)
    await waitUntil(async () => (await call(statsOf('first'))).body.data?.value === 1, 'the first event is stored')
    const stats = statsOf(site)
    const sent = await call(`${gateway.url}/collect`, { ...event, body: { site_id: site, event_type: 'x' } })
    expect(sent.status).toBe(202)
    await waitUntil(async () => (await call(stats)).body.data?.value === 1, 'the event is stored')
    expect((await call(stats, question)).status).toBe(200)
    const created = await call(`${query.url}/api/v1/exports`, {
      ...order,
      body: { site_id: site, type: 'events', format: 'csv' },
    })
    const path = `${query.url}/api/v1/exports/${String(created.body.data?.export_id)}`
    await waitUntil(async () => (await call(path)).body.data?.status === 'completed', 'the export ends')
    expect(await stopAll()).toEqual([0, 0, 0, 0])

    const collect = spanOf(event.traceId, 'POST /collect')
    expect(collect).toMatchObject({
      service: 'sluice-gateway',
      parentSpanId: event.spanId,
      attributes: { 'http.route': '/collect', 'http.response.status_code': 202 },
    })
    const publish = spanOf(event.traceId, 'publish')
    expect(publish.parentSpanId).toBe(collect.spanId)
    const batch = spanOf(event.traceId, 'batch')
    expect(batch).toMatchObject({ service: 'sluice-writer', parentSpanId: publish.spanId })
    expect(batch.attributes['sluice.rows']).toBe(1)
    expect(childrenOf(batch)).toContain('insert')
    const asked = spanOf(question.traceId, 'GET /api/v1/stats')
    expect(childrenOf(asked)).toContain('clickhouse')
    expect(childrenOf(spanOf(order.traceId, 'POST /api/v1/exports'))).toContain('postgres')
    const jobs = collector.spans.filter(({ name }) => name === 'job exports')
    expect(jobs.flatMap(childrenOf)).toContain('clickhouse')
    expect(jobs.every(({ parentSpanId }) => parentSpanId === '')).toBe(true)

    // Background activity such as polls begins no trace.
    const begun = collector.spans.filter(({ parentSpanId }) => parentSpanId === '').map(({ name }) => name)
    expect(begun.filter((name) => !/^(job |GET |POST |batch)/.test(name))).toEqual([])
    expect(collector.received()).not.toContain(cluster.key)
    expect(linesOf(query).find((line) => line.trace_id === question.traceId)).toMatchObject({
      msg: 'request',
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    })
    expect(linesOf(writer)).toContainEqual(expect.objectContaining({ msg: 'batch', trace_id: event.traceId }))
  })

  it('links a publish with every request that it carries', async () => {
    const gateway = await start('gateway')
    await warmUp(gateway)
    const senders = Array.from({ length: 20 }, sampled)
    const answers = await Promise.all(
      senders.map((sender) => call(`${gateway.url}/collect`, { ...sender, body: { site_id: site, event_type: 'x' } })),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
    await stopAll()
    const publishes = collector.spans.filter(({ name }) => name === 'publish')
    expect(publishes.length).toBeLessThan(senders.length)
    const reached = publishes.flatMap(({ traceId, linkedTraces }) => [traceId, ...linkedTraces])
    expect(reached.sort()).toEqual(senders.map(({ traceId }) => traceId).sort())
  })

  it('records what OTEL_TRACES_SAMPLER says', async () => {
    const gateway = await start('gateway', {
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
      OTEL_SERVICE_NAME: 'intake',
    })
    const body = { site_id: site, event_type: 'x' }
    const sender = sampled()
    await call(`${gateway.url}/collect`, { body })
    await call(`${gateway.url}/collect`, { ...sender, body })
    await stopAll()
    expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([sender.traceId]))
    expect(spanOf(sender.traceId, 'POST /collect').service).toBe('intake')
  })

  it('leaves the service alone when there is no collector, and logs the reason', async () => {
    const endpoint = `http://127.0.0.1:${await findFreePort()}`
    const gateway = await start('gateway', { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
    await warmUp(gateway)
    const { status } = await call(`${gateway.url}/collect`, { body: { site_id: site, event_type: 'x' } })
    expect(status).toBe(202)
    expect(await stopAll()).toEqual([0])
    expect(linesOf(gateway).filter((line) => line.level === 'error' || line.level === 'fatal')).toEqual([])
  })
})

/** The `traceparent` of a new, sampled trace. */
function sampled(): { traceId: string; spanId: string; traceparent: string } {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')]
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-01` }
}

function linesOf(service: ServiceProcess): Record<string, unknown>[] {
  return service
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
