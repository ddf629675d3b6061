import { afterEach, describe, expect, test } from '@jest/globals'
import { unavailable } from '@sluice/contracts/errors'
import { waitUntil } from '@sluice/engines/processes'
import { createMetrics, Gauge } from '@sluice/runtime/metrics'
import { type Component, supervise } from '@sluice/runtime/supervisor'
import { capturedLogger } from '@sluice/runtime/testing'
import { noAccess } from './access.ts'
import type { Route } from './route.ts'
import { serve, type Service } from './service.ts'
import { request, startTestService, type TestService } from './testing.ts'

let service: TestService | undefined

async function start(parts: Partial<Service> = {}): Promise<TestService> {
  service = await startTestService(parts, noAccess)
  return service
}

afterEach(async () => {
  await service?.stop()
})

const away = { check: () => Promise.reject(unavailable('Postgres: canary at 10.0.0.7')) }
const there = { check: () => Promise.resolve() }

describe('GET /healthz', () => {
  test('200 whatever is away', async () => {
    const { url } = await start({ checks: [{ name: 'postgres', required: true, ...away }] })
    const { status, headers, body } = await request(`${url}/healthz`, { headers: { 'X-Request-Id': 'mine' } })
    expect(status).toBe(200)
    expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number), data: { status: 'alive' } })
    expect(headers.get('x-request-id')).toBe('mine')
  })

  test('405 for other methods', async () => {
    const { url } = await start()
    const { status, headers } = await request(`${url}/healthz`, { method: 'POST' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe('GET, HEAD')
  })

  test('HEAD has no body', async () => {
    const { url } = await start()
    const response = await fetch(`${url}/healthz`, { method: 'HEAD' })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })
})

describe('GET /readyz', () => {
  test('200 when all that is required is there; what else is away is named as degraded', async () => {
    const { url } = await start({
      checks: [
        { name: 'clickhouse', required: true, ...there },
        { name: 'postgres', required: false, ...away },
      ],
    })
    const { status, body } = await request(`${url}/readyz`)
    expect(status).toBe(200)
    expect(body).toStrictEqual({
      success: true,
      timestamp: expect.any(Number),
      data: { status: 'ready', missing: {}, degraded: { postgres: 'does not answer' }, warnings: [] },
    })
  })

  test('503 names what is missing, and nothing of its address', async () => {
    const { url } = await start({ checks: [{ name: 'postgres', required: true, ...away }] })
    const { status, body } = await request(`${url}/readyz`)
    expect(status).toBe(503)
    expect(body).toStrictEqual({
      success: false,
      error: 'Not ready: postgres',
      timestamp: expect.any(Number),
      data: { status: 'not ready', missing: { postgres: 'does not answer' }, degraded: {}, warnings: [] },
    })
    expect(JSON.stringify(body)).not.toContain('canary')
  })

  test('asks anew after a second', async () => {
    let isThere = false
    const { url } = await start({
      checks: [{ name: 'log', required: true, check: () => (isThere ? there : away).check() }],
    })
    const isReady = async () => (await request(`${url}/readyz`)).status === 200
    expect(await isReady()).toBe(false)
    isThere = true
    await waitUntil(isReady, 'the log is there', 5_000)
  })

  test('does not ask for each of those who come together, or within a second', async () => {
    let asked = 0
    const gate = Promise.withResolvers<undefined>()
    const check = () => {
      asked++
      return gate.promise
    }
    const { url } = await start({ checks: [{ name: 'log', required: true, check }] })
    const together = Array.from({ length: 20 }, () => request(`${url}/readyz`))
    await waitUntil(() => asked > 0, 'the log is asked', 5_000)
    gate.resolve(undefined)
    for (const { status } of await Promise.all(together)) expect(status).toBe(200)
    expect((await request(`${url}/readyz`)).status).toBe(200)
    // One, and a few more on a machine so busy that the requests took seconds.
    expect(asked).toBeLessThan(5)
  })

  test('names components that failed and wait for their next try', async () => {
    const failing = { name: 'event consumer', run: () => Promise.reject(new Error('canary')) }
    const { server, supervisor } = await startSupervised([failing])
    const { status, body } = await request(`http://127.0.0.1:${server.port()}/readyz`)
    expect(status).toBe(200)
    expect(body.data).toStrictEqual({
      status: 'ready',
      missing: {},
      degraded: { 'event consumer': 'failed, is run again' },
      warnings: [],
    })
    await supervisor.stop()
  })

  test('503 once the service stops, while its server still answers', async () => {
    const { server, supervisor, components } = await startSupervised([])
    // What is started last is stopped first.
    await components.at(-1)?.stop?.()
    const { status, body } = await request(`http://127.0.0.1:${server.port()}/readyz`)
    expect(status).toBe(503)
    expect(body).toMatchObject({ error: 'Not ready: service', data: { missing: { service: 'stopping' } } })
    await supervisor.stop()
  })
})

/** A service with the supervisor that it runs under. */
async function startSupervised(components: Component[]) {
  const { logger } = capturedLogger()
  const served = serve({ routes: [], pages: [], components, checks: [] }, noAccess, {
    config: { SLUICE_HOST: '127.0.0.1', SLUICE_PORT: 0, SLUICE_METRICS_PORT: undefined },
    logger,
    metrics: createMetrics(),
    failures: () => supervisor.failures(),
  })
  const supervisor = supervise(served.components, logger)
  await supervisor.start()
  return { ...served, supervisor }
}

describe('metrics', () => {
  test('are on a port of their own and nowhere else', async () => {
    const { url, metricsUrl } = await start()
    const response = await fetch(`${metricsUrl}/metrics`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^text\/plain/)
    expect(await response.text()).toContain('process_cpu_seconds_total')
    expect((await fetch(`${metricsUrl}/metrics?x=1`)).status).toBe(200)
    expect((await fetch(`${metricsUrl}/healthz`)).status).toBe(404)
    expect((await fetch(`${url}/metrics`)).status).toBe(404)
  })

  test('that can not be collected are 500 and a line in the log, not the end of the process', async () => {
    const { metricsUrl, metrics, lines } = await start()
    new Gauge({
      name: 'broken',
      help: 'x',
      registers: [metrics],
      collect: () => {
        throw new Error('no figures')
      },
    })
    expect((await fetch(`${metricsUrl}/metrics`)).status).toBe(500)
    expect(lines()).toContainEqual(expect.objectContaining({ level: 'error', msg: 'metrics could not be collected' }))
  })
})

describe('a page', () => {
  test('is public, and has a request id', async () => {
    const { url } = await start({
      pages: [
        {
          path: '/',
          handle: (_request, response) => {
            response.writeHead(200, { 'Content-Type': 'text/html' }).end('<p>hello</p>')
          },
        },
      ],
    })
    const response = await fetch(url)
    expect(await response.text()).toBe('<p>hello</p>')
    expect(response.headers.get('x-request-id')).toMatch(/^[\da-f-]{36}$/)
  })

  test('that fails is a bare 500', async () => {
    const { url, text } = await start({ pages: [{ path: '/', handle: () => Promise.reject(new Error('canary')) }] })
    const { status, body } = await request(url)
    expect(status).toBe(500)
    expect(body.error).toBe('Internal server error')
    expect(text()).toContain('canary')
  })
})

test('two routes of one method and path are a mistake at the start', async () => {
  const route: Route = {
    method: 'GET',
    path: '/x',
    scope: 'admin',
    limit: 'admin',
    handle: () => Promise.resolve({ status: 200 }),
  }
  await expect(startTestService({ routes: [route, route] }, noAccess)).rejects.toThrow('two routes for GET /x')
})

test('a service without keys takes none', () => {
  expect(() => noAccess.keys.authenticate('x')).toThrow('Invalid API key')
})
