import { afterEach, describe, expect, test } from '@jest/globals'
import { denyAll } from '@sluice/access/access'
import { unavailable } from '@sluice/runtime/errors'
import { createMetrics, Gauge } from '@sluice/runtime/metrics'
import { type Component, supervise } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { request, startTestService, type TestService } from '../../tests/support/test-service.ts'
import type { Route } from './route.ts'
import { serve, type Service } from './service.ts'

let service: TestService | undefined

async function start(parts: Partial<Service> = {}): Promise<TestService> {
  service = await startTestService(parts, denyAll)
  return service
}

afterEach(async () => {
  await service?.stop()
})

const failingCheck = { check: () => Promise.reject(unavailable('Postgres: canary at 10.0.0.7')) }
const passingCheck = { check: () => Promise.resolve() }

describe('GET /healthz', () => {
  test('is 200 even when a required engine is unavailable', async () => {
    const { url } = await start({ checks: [{ name: 'postgres', required: true, ...failingCheck }] })
    const { status, headers, body } = await request(`${url}/healthz`, { headers: { 'X-Request-Id': 'mine' } })
    expect(status).toBe(200)
    expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number), data: { status: 'alive' } })
    expect(headers.get('x-request-id')).toBe('mine')
  })

  test('is 405 for other methods', async () => {
    const { url } = await start()
    const { status, headers } = await request(`${url}/healthz`, { method: 'POST' })
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe('GET, HEAD')
  })

  test('has no body in the response to HEAD', async () => {
    const { url } = await start()
    const response = await fetch(`${url}/healthz`, { method: 'HEAD' })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })
})

describe('GET /readyz', () => {
  test('is 200 when all required engines respond, and lists unavailable optional ones as degraded', async () => {
    const { url } = await start({
      checks: [
        { name: 'clickhouse', required: true, ...passingCheck },
        { name: 'postgres', required: false, ...failingCheck },
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

  test('warns of a machine whose clock is off, and is ready all the same', async () => {
    const clock = { ...exactClock, warnings: () => ['The clock is off'] }
    service = await startTestService({ warnings: () => ['The disk is small'] }, denyAll, undefined, { clock })
    const { status, body } = await request(`${service.url}/readyz`)
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ status: 'ready', warnings: ['The clock is off', 'The disk is small'] })
  })

  test('is 503 with the names of the missing engines and without their addresses', async () => {
    const { url } = await start({ checks: [{ name: 'postgres', required: true, ...failingCheck }] })
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

  test('logs the failure of an engine once, and that it passes again', async () => {
    const outcomes = [failingCheck, failingCheck, passingCheck, failingCheck]
    let checks = 0
    const check = () => (outcomes[checks++] ?? passingCheck).check()
    const { url, lines } = await start({ checks: [{ name: 'log', required: true, check }] })
    await waitUntil(async () => {
      await request(`${url}/readyz`)
      return checks > outcomes.length
    }, 'each outcome was reported')
    const failed = { level: 'warn', reason: 'Postgres: canary at 10.0.0.7', msg: 'engine check failed' }
    const passed = { level: 'warn', msg: 'engine check recovered' }
    expect(lines().filter(({ engine }) => engine === 'log')).toMatchObject([failed, passed, failed, passed])
  })

  test('repeats the checks after a second', async () => {
    let isAvailable = false
    const { url } = await start({
      checks: [{ name: 'log', required: true, check: () => (isAvailable ? passingCheck : failingCheck).check() }],
    })
    const isReady = async () => (await request(`${url}/readyz`)).status === 200
    expect(await isReady()).toBe(false)
    isAvailable = true
    await waitUntil(isReady, 'the log is there')
  })

  test('shares one check among concurrent requests and among requests within a second', async () => {
    let checkCalls = 0
    const gate = Promise.withResolvers<undefined>()
    const check = () => {
      checkCalls++
      return gate.promise
    }
    const { url } = await start({ checks: [{ name: 'log', required: true, check }] })
    const concurrentRequests = Array.from({ length: 20 }, () => request(`${url}/readyz`))
    await waitUntil(() => checkCalls > 0, 'the log is asked')
    gate.resolve(undefined)
    for (const { status } of await Promise.all(concurrentRequests)) expect(status).toBe(200)
    expect((await request(`${url}/readyz`)).status).toBe(200)
    // One call, and a few more if the machine is so busy that the requests take seconds.
    expect(checkCalls).toBeLessThan(5)
  })

  test('lists components that failed and wait for their restart', async () => {
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

  test('is 503 once the service is stopping, while its server still accepts requests', async () => {
    const { server, supervisor, components } = await startSupervised([])
    // The component that is started last is stopped first.
    await components.at(-1)?.stop?.()
    const { status, body } = await request(`http://127.0.0.1:${server.port()}/readyz`)
    expect(status).toBe(503)
    expect(body).toMatchObject({ error: 'Not ready: service', data: { missing: { service: 'stopping' } } })
    await supervisor.stop()
  })

  test('is 200 until the service is told that it stops, once', async () => {
    let told = 0
    const { url, stop } = await start({ onStopping: () => told++ })
    expect((await request(`${url}/readyz`)).status).toBe(200)
    expect(told).toBe(0)
    await stop()
    expect(told).toBe(1)
  })
})

/** A service with the supervisor that it runs under. */
async function startSupervised(components: Component[]) {
  const { logger } = capturedLogger()
  const served = serve({ routes: [], pages: [], components, checks: [] }, denyAll, {
    config: { SLUICE_HOST: '127.0.0.1', SLUICE_PORT: 0, SLUICE_METRICS_PORT: undefined },
    logger,
    metrics: createMetrics(),
    clock: exactClock,
    failures: () => supervisor.failures(),
  })
  const supervisor = supervise(served.components, logger)
  await supervisor.start()
  return { ...served, supervisor }
}

describe('metrics', () => {
  test('are served on their own port only', async () => {
    const { url, metricsUrl } = await start()
    const response = await fetch(`${metricsUrl}/metrics`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^text\/plain/)
    expect(await response.text()).toContain('process_cpu_seconds_total')
    expect((await fetch(`${metricsUrl}/metrics?x=1`)).status).toBe(200)
    expect((await fetch(`${metricsUrl}/readyz`)).status).toBe(404)
    expect((await fetch(`${url}/metrics`)).status).toBe(404)
  })

  test('have /healthz on their port, for probes while clients hold all connections of the other', async () => {
    const { metricsUrl } = await start()
    const response = await fetch(`${metricsUrl}/healthz`, { headers: { 'X-Request-Id': 'a1' } })
    expect(response.headers.get('x-request-id')).toBe('a1')
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ success: true, data: { status: 'alive' } })
  })

  test('say which build runs, whether it is ready and which engines answer', async () => {
    let isAway = true
    const postgres = () => (isAway ? failingCheck.check() : passingCheck.check())
    const { metricsUrl } = await start({
      checks: [
        { name: 'postgres', required: true, check: postgres },
        { name: 'redis', required: false, ...failingCheck },
        { name: 'clickhouse', required: true, ...passingCheck },
      ],
    })
    const scrape = async () => (await fetch(`${metricsUrl}/metrics`)).text()
    const away = await scrape()
    expect(away).toMatch(/^sluice_build_info\{version="\d+\.\d+\.\d+",schema="\d+"\} 1$/m)
    expect(away).toContain('\nsluice_ready 0\n')
    expect(away).toContain('\nsluice_engine_up{engine="postgres"} 0\n')
    expect(away).toContain('\nsluice_engine_up{engine="redis"} 0\n')
    expect(away).toContain('\nsluice_engine_up{engine="clickhouse"} 1\n')
    isAway = false
    await waitUntil(async () => (await scrape()).includes('\nsluice_ready 1\n'), 'the service is ready')
    expect(await scrape()).toContain('\nsluice_engine_up{engine="postgres"} 1\n')
  })

  test('that cannot be collected are answered 500 and logged, and the process goes on', async () => {
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
    expect(lines()).toContainEqual(expect.objectContaining({ level: 'error', msg: 'metrics collection failed' }))
  })
})

describe('a page', () => {
  test('is public and has a request id', async () => {
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

  test('that fails is answered 500 without details', async () => {
    const { url, text } = await start({ pages: [{ path: '/', handle: () => Promise.reject(new Error('canary')) }] })
    const { status, body } = await request(url)
    expect(status).toBe(500)
    expect(body.error).toBe('Internal server error')
    expect(text()).toContain('canary')
  })
})

test('two routes with the same method and path fail the start', async () => {
  const route: Route = {
    method: 'GET',
    path: '/x',
    scope: 'admin',
    limit: 'admin',
    handle: () => Promise.resolve({ status: 200 }),
  }
  await expect(startTestService({ routes: [route, route] }, denyAll)).rejects.toThrow('two routes for GET /x')
})

test('a service without keys rejects every key', () => {
  expect(() => denyAll.keys.authenticate('x')).toThrow('Invalid API key')
})
