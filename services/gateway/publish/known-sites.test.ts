import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { unavailable } from '@sluice/contracts/errors'
import { waitUntil } from '@sluice/engines/processes'
import { request } from '@sluice/http/testing'
import { type Cuttable, cuttable } from '@sluice/postgres/testing'
import { capturedLogger } from '@sluice/runtime/testing'
import { startGateway, type TestGateway } from '../gateway.test-support.ts'
import { knownSites } from './known-sites.ts'

/** A registry that remembers what it was asked, and answers as the test says. */
function scriptedRegistry() {
  const asked: (readonly string[])[] = []
  const registry = {
    asked,
    answer: () => Promise.resolve(),
    register: (siteIds: readonly string[]) => {
      asked.push(siteIds)
      return registry.answer()
    },
  }
  return registry
}

describe('registering', () => {
  test('happens once for each site; known ones cost nothing', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger)
    await sites.register(new Set(['a', 'b']))
    await sites.register(new Set(['b', 'c']))
    expect(registry.asked).toStrictEqual([['a', 'b'], ['c']])
    expect(sites.register(new Set(['a', 'b', 'c']))).toBeUndefined()
  })

  test('is waited for: a site is known before its event is answered', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => undefined)
    const sites = knownSites(registry, capturedLogger().logger)
    let done = false
    const registered = Promise.resolve(sites.register(new Set(['a']))).then(() => {
      done = true
    })
    await new Promise(setImmediate)
    expect(done).toBe(false)
    gate.resolve(undefined)
    await registered
  })

  test('with Postgres away is given up and tried again by the site’s next event', async () => {
    const registry = scriptedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = knownSites(registry, logger)
    registry.answer = () => Promise.reject(unavailable('away'))
    await sites.register(new Set(['a']))
    expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', sites: 1 })])
    registry.answer = () => Promise.resolve()
    await sites.register(new Set(['a']))
    expect(registry.asked).toHaveLength(2)
    expect(sites.register(new Set(['a']))).toBeUndefined()
  })

  test('that takes too long is not waited for, and counts when it ends', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => undefined)
    const sites = knownSites(registry, capturedLogger().logger)
    const started = performance.now()
    await sites.register(new Set(['a']))
    expect(performance.now() - started).toBeLessThan(1_500)
    gate.resolve(undefined)
    await new Promise(setImmediate)
    expect(sites.register(new Set(['a']))).toBeUndefined()
  })

  test('that fails after its time is no unhandled rejection', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<never>()
    registry.answer = () => gate.promise
    const sites = knownSites(registry, capturedLogger().logger)
    await sites.register(new Set(['a']))
    gate.reject(new TypeError('late'))
    await new Promise(setImmediate)
  })

  test('that breaks is told', async () => {
    const registry = scriptedRegistry()
    registry.answer = () => Promise.reject(new TypeError('broken'))
    const sites = knownSites(registry, capturedLogger().logger)
    await expect(sites.register(new Set(['a']))).rejects.toThrow('broken')
  })
})

describe('a gateway whose Postgres', () => {
  let way: Cuttable
  let gateway: TestGateway

  beforeAll(async () => {
    gateway = await startGateway({
      postgresUrl: async (url) => {
        way = await cuttable(url)
        return way.url
      },
    })
    // Its keys are known from now on.
    expect((await gateway.collect({ site_id: 'before', event_type: 'x' })).status).toBe(202)
  })

  afterEach(async () => {
    await way.mend()
  })

  afterAll(async () => {
    await gateway.stop()
    await way.close()
  })

  async function isRegistered(siteId: string): Promise<boolean> {
    const rows = await gateway.postgres.db.selectFrom('sites').select('site_id').where('site_id', '=', siteId).execute()
    return rows.length > 0
  }

  test.each(['cut', 'freeze'] as const)(
    'is gone or hangs (%s) takes events of new sites all the same',
    async (fail) => {
      await way[fail]()
      for (const send of [
        () => gateway.collect({ site_id: `new-${fail}`, event_type: 'x' }),
        () => gateway.collectBatch({ events: [{ site_id: `new-${fail}`, event_type: 'x' }] }),
        () => gateway.collect({ site_id: 'before', event_type: 'x' }),
      ]) {
        const started = performance.now()
        expect((await send()).status).toBe(202)
        expect(performance.now() - started).toBeLessThan(2_500)
      }
      await gateway.stored(`new-${fail}`, 2)
      expect(await isRegistered(`new-${fail}`)).toBe(false)

      await way.mend()
      const register = async (): Promise<boolean> => {
        await gateway.collect({ site_id: `new-${fail}`, event_type: 'x' })
        return isRegistered(`new-${fail}`)
      }
      await waitUntil(register, 'the site is registered by a later event', 15_000)
    },
  )

  test('is gone refuses keys that it has not seen as 503', async () => {
    await way.cut()
    const { status, headers } = await gateway.collect({ site_id: 'before', event_type: 'x' }, { key: gateway.keys.dev })
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('1')
  })

  test('is gone is named as degraded, and the gateway stays ready', async () => {
    await way.cut()
    const { status, body } = await request(`${gateway.service.url}/readyz`)
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ status: 'ready', degraded: { postgres: 'does not answer' } })
  })
})
