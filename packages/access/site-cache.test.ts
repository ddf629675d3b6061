import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-limits'
import { erasureStore } from '@sluice/postgres/erasures'
import { siteStore } from '@sluice/postgres/sites'
import { unavailable } from '@sluice/runtime/errors'
import { supervise, type Supervisor } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import {
  type ProxiedGateway,
  startGateway,
  startGatewayBehindProxy,
  type TestGateway,
} from '../../tests/support/gateway.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { refusalOf, type SiteCache, siteCache, type SitePolicies } from './site-cache.ts'
import type { Registration, SiteStore } from './sites.ts'

type Answer = Pick<Registration, 'refused' | 'retryAfterSeconds'> & Partial<Registration>

const none: Answer = { refused: [], retryAfterSeconds: 0 }
const autoRegister = { autoRegister: true }

/** A registry that records the requested sites and whose results the test sets. */
function scriptedRegistry() {
  const requestedSites: (readonly string[])[] = []
  const registry = {
    requestedSites,
    answer: (): Promise<Answer> => Promise.resolve(none),
    registerFor: async (_keyId: string, siteIds: readonly string[]) => {
      requestedSites.push(siteIds)
      return { retentionDays: new Map<string, number>(), ...(await registry.answer()) }
    },
    known: new Map<string, number | null>(),
    findRegistered: (siteIds: readonly string[]) => {
      requestedSites.push(siteIds)
      return Promise.resolve(new Map([...registry.known].filter(([siteId]) => siteIds.includes(siteId))))
    },
    changed: [] as { siteId: string; retentionDays: number | null }[],
    deleted: [] as string[],
    polls: 0,
    changedSince: (): ReturnType<SiteStore['changedSince']> => {
      registry.polls++
      return Promise.resolve({ changed: registry.changed, deleted: registry.deleted, cursor: String(registry.polls) })
    },
  }
  return registry
}

const running: Supervisor[] = []

/** Runs the cache as a component until the end of the test. */
async function startCache(sites: SiteCache): Promise<void> {
  const supervisor = supervise([sites], capturedLogger().logger)
  running.push(supervisor)
  await supervisor.start()
}

afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()))
})

/** Summarises policies by site: the message of the refusal, or the days for which events are kept. */
function summarize(policies: SitePolicies): Record<string, string | number> {
  return Object.fromEntries(
    [...policies].map(([siteId, policy]) => [
      siteId,
      'refusal' in policy ? policy.refusal.message : policy.retentionMs / 86_400_000,
    ]),
  )
}

const rateLimitText = (seconds: number) => `Rate limit exceeded. Retry after ${seconds} seconds.`

describe('registering', () => {
  test('reads Postgres once for each site', async () => {
    const registry = scriptedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    await sites.register('key', new Set(['a', 'b']))
    await sites.register('key', new Set(['b', 'c']))
    expect(registry.requestedSites).toStrictEqual([['a', 'b'], ['c']])
    expect(sites.register('key', new Set(['a', 'b', 'c']))).toStrictEqual(new Map())
  })

  test('is awaited, so that a site is registered before its event is answered', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => none)
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    let done = false
    const registered = Promise.resolve(sites.register('key', new Set(['a']))).then(() => {
      done = true
    })
    await new Promise(setImmediate)
    expect(done).toBe(false)
    gate.resolve(undefined)
    await registered
  })

  test('is skipped while Postgres is unavailable and repeated by the next event of the site', async () => {
    const registry = scriptedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = siteCache(registry, logger, autoRegister)
    registry.answer = () => Promise.reject(unavailable('away'))
    await sites.register('key', new Set(['a']))
    expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', sites: 1 })])
    registry.answer = () => Promise.resolve(none)
    await sites.register('key', new Set(['a']))
    expect(registry.requestedSites).toHaveLength(2)
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('is logged once a second with the number of sites while Postgres is unavailable', async () => {
    const registry = scriptedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = siteCache(registry, logger, autoRegister)
    registry.answer = () => Promise.reject(unavailable('away'))
    const clock = jest.spyOn(performance, 'now').mockReturnValue(50_000)
    for (let n = 0; n < 10; n++) await sites.register('key', new Set(['a', 'b']))
    clock.mockReturnValue(51_000)
    await sites.register('key', new Set(['a']))
    clock.mockRestore()
    expect(lines()).toStrictEqual([
      expect.objectContaining({ level: 'warn', sites: 2, reason: 'away' }),
      expect.objectContaining({ level: 'warn', sites: 19, reason: 'away' }),
    ])
  })

  test('is not awaited when it takes too long, and has its effect when it ends', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => none)
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    const elapsedMs = startStopwatch()
    await sites.register('key', new Set(['a']))
    expect(elapsedMs()).toBeLessThan(5_000)
    gate.resolve(undefined)
    await new Promise(setImmediate)
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('causes no unhandled rejection when it fails after its time-out', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<never>()
    registry.answer = () => gate.promise
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    await sites.register('key', new Set(['a']))
    gate.reject(new TypeError('late'))
    await new Promise(setImmediate)
  })

  test('rejects with a failure that is not retryable', async () => {
    const registry = scriptedRegistry()
    registry.answer = () => Promise.reject(new TypeError('broken'))
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    await expect(sites.register('key', new Set(['a']))).rejects.toThrow('broken')
  })
})

describe('sites that a key may not register', () => {
  const refuse = (...siteIds: string[]) => Promise.resolve({ refused: siteIds, retryAfterSeconds: 90 })

  test('are returned with the seconds until the key may register them, and the other sites are registered', async () => {
    const registry = scriptedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('c')
    expect(summarize(await sites.register('key', new Set(['a', 'b', 'c'])))).toStrictEqual({ c: rateLimitText(90) })
    expect(sites.register('key', new Set(['a', 'b']))).toStrictEqual(new Map())
  })

  test('are refused for that key without a further query for a while', async () => {
    const registry = scriptedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('a')
    await sites.register('key', new Set(['a']))
    expect(summarize(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: rateLimitText(90) })
    registry.answer = () => Promise.resolve(none)
    expect(summarize(await sites.register('key', new Set(['b', 'a'])))).toStrictEqual({ a: rateLimitText(90) })
    expect(registry.requestedSites).toStrictEqual([['a'], ['b']])
    // Another key may register the site, which every key can use from then on.
    expect(await sites.register('other', new Set(['a']))).toStrictEqual(new Map())
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('stay refused while Postgres is unavailable, and other sites are accepted', async () => {
    const registry = scriptedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('a')
    await sites.register('key', new Set(['a']))
    registry.answer = () => Promise.reject(unavailable('away'))
    expect(summarize(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: rateLimitText(90) })
  })
})

describe('a site that keeps its events for some days', () => {
  const day = 86_400_000

  test('has its retention in the policies from the first look-up on', async () => {
    const registry = scriptedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => Promise.resolve({ ...none, retentionDays: new Map([['a', 30]]) })
    expect(summarize(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: 30 })
    const repeated = sites.register('other', new Set(['b', 'a']))
    expect(repeated).toBeInstanceOf(Map)
    expect(summarize(await repeated)).toStrictEqual({ a: 30 })
    expect(registry.requestedSites).toHaveLength(1)
  })

  test('refuses older events, to the millisecond', () => {
    const now = 1_767_000_000_000
    const policy = { retentionMs: 30 * day }
    expect(refusalOf(policy, now - 30 * day, now)).toBeUndefined()
    expect(refusalOf(policy, now + 1, now)).toBeUndefined()
    expect(refusalOf(policy, now - 30 * day - 1, now)).toMatchObject({
      code: 'invalid_field',
      message: 'Invalid field: timestamp must not be older than the retention_days of its site, 30',
    })
  })

  describe('when its retention changes', () => {
    /** Runs a cache that polls every millisecond; resolves after its first poll. */
    async function startPolling(registry: ReturnType<typeof scriptedRegistry>) {
      const { logger, lines } = capturedLogger()
      const sites = siteCache(registry, logger, { ...autoRegister, pollIntervalMs: 1 })
      await startCache(sites)
      const nextPoll = async () => {
        const { polls } = registry
        await waitUntil(() => registry.polls > polls + 1, 'a poll is over')
      }
      await nextPoll()
      return { sites, lines, nextPoll }
    }

    test('has the new retention after a poll, which caches no site without events', async () => {
      const registry = scriptedRegistry()
      const { sites, nextPoll } = await startPolling(registry)
      await sites.register('key', new Set(['a', 'b']))
      registry.changed = [
        { siteId: 'a', retentionDays: 7 },
        { siteId: 'c', retentionDays: 9 },
      ]
      await nextPoll()
      expect(summarize(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: 7 })
      registry.changed = [{ siteId: 'a', retentionDays: null }]
      await nextPoll()
      expect(sites.register('key', new Set(['a', 'b']))).toStrictEqual(new Map())
      await sites.register('key', new Set(['c']))
      expect(registry.requestedSites).toStrictEqual([['a', 'b'], ['c']])
    })

    test('is registered anew by the first event after a poll that says that it was deleted', async () => {
      const registry = scriptedRegistry()
      const { sites, nextPoll } = await startPolling(registry)
      await sites.register('key', new Set(['a', 'b']))
      registry.deleted = ['a', 'c']
      await nextPoll()
      registry.deleted = []
      await sites.register('key', new Set(['a', 'b']))
      expect(sites.register('key', new Set(['a', 'b']))).toStrictEqual(new Map())
      expect(registry.requestedSites).toStrictEqual([['a', 'b'], ['a']])
    })

    test('has the new retention after the first poll, although the change is older than that poll', async () => {
      const registry = scriptedRegistry()
      const { logger } = capturedLogger()
      const sites = siteCache(registry, logger, { ...autoRegister, pollIntervalMs: 1 })
      await sites.register('key', new Set(['a']))
      registry.known.set('a', 7)
      await startCache(sites)
      const isChanged = async () => (await sites.register('key', new Set(['a']))).size === 1
      await waitUntil(isChanged, 'the change is heard')
    })

    test('keeps the cached retention while Postgres is unavailable, which is logged once, and has the new one afterwards', async () => {
      const registry = scriptedRegistry()
      registry.answer = () => Promise.resolve({ ...none, retentionDays: new Map([['a', 30]]) })
      const { sites, lines, nextPoll } = await startPolling(registry)
      await sites.register('key', new Set(['a']))
      const { changedSince } = registry
      const cursors: (string | undefined)[] = []
      registry.changedSince = (since?: string) => {
        registry.polls++
        cursors.push(since)
        return Promise.reject(unavailable('away'))
      }
      await nextPoll()
      expect(summarize(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 30 })
      expect(lines().filter(({ msg }) => String(msg).includes('site changes could not be polled'))).toHaveLength(1)
      expect(new Set(cursors).size).toBe(1)
      expect(cursors[0]).toMatch(/^\d+$/)
      registry.changed = [{ siteId: 'a', retentionDays: 7 }]
      registry.changedSince = changedSince
      await nextPoll()
      expect(summarize(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 7 })
    })
  })
})

describe('where only administrators register sites', () => {
  const manualRegistration = { autoRegister: false }

  test('an unknown site is refused and not registered, and later requests read the cached refusal', async () => {
    const registry = scriptedRegistry()
    registry.known.set('a', null).set('b', 7)
    registry.answer = () => Promise.reject(new Error('it was registered'))
    const sites = siteCache(registry, capturedLogger().logger, manualRegistration)
    const expected = { b: 7, c: 'Site not found' }
    expect(summarize(await sites.register('key', new Set(['a', 'b', 'c'])))).toStrictEqual(expected)
    const repeated = sites.register('other', new Set(['a', 'b', 'c']))
    expect(repeated).toBeInstanceOf(Map)
    expect(summarize(await repeated)).toStrictEqual(expected)
    expect(registry.requestedSites).toHaveLength(1)
  })

  test('a site that is registered later is accepted after a poll', async () => {
    const registry = scriptedRegistry()
    const { logger } = capturedLogger()
    const sites = siteCache(registry, logger, { ...manualRegistration, pollIntervalMs: 1 })
    expect(summarize(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 'Site not found' })
    registry.known.set('a', null)
    registry.changed = [{ siteId: 'a', retentionDays: null }]
    await startCache(sites)
    const isKnown = async () => (await sites.register('key', new Set(['a']))).size === 0
    await waitUntil(isKnown, 'it is known')
  })

  test('a site that was deleted is refused after a poll', async () => {
    const registry = scriptedRegistry()
    registry.known.set('a', null)
    const sites = siteCache(registry, capturedLogger().logger, { ...manualRegistration, pollIntervalMs: 1 })
    await sites.register('key', new Set(['a']))
    await startCache(sites)
    registry.known.delete('a')
    registry.deleted = ['a']
    const isRefused = async () => (await sites.register('key', new Set(['a']))).size === 1
    await waitUntil(isRefused, 'it is refused')
    expect(summarize(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 'Site not found' })
  })

  test.each(['away', 'hanging'])(
    'while Postgres is %s, a site that is not cached gets 503 and a cached site is accepted',
    async (how) => {
      const registry = scriptedRegistry()
      registry.known.set('a', null)
      const sites = siteCache(registry, capturedLogger().logger, manualRegistration)
      await sites.register('key', new Set(['a']))
      registry.findRegistered = () =>
        how === 'away' ? Promise.reject(unavailable('away')) : new Promise(() => undefined)
      await expect(sites.register('key', new Set(['a', 'b']))).rejects.toMatchObject({
        code: 'unavailable',
        retryable: true,
      })
      expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
    },
  )
})

describe('new sites of a key that arrive while Postgres registers others of the key', () => {
  function blockedRegistry() {
    const registry = scriptedRegistry()
    const gates: PromiseWithResolvers<Answer>[] = []
    registry.answer = () => {
      const gate = Promise.withResolvers<Answer>()
      gates.push(gate)
      return gate.promise
    }
    return { registry, gates }
  }
  const nextTurn = () => new Promise(setImmediate)

  test('are registered together by the next call, and each request gets the refusals of its own sites', async () => {
    const { registry, gates } = blockedRegistry()
    const sites = siteCache(registry, capturedLogger().logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await nextTurn()
    const second = sites.register('key', new Set(['b', 'c']))
    const third = sites.register('key', new Set(['c', 'd']))
    const other = sites.register('other', new Set(['e']))
    await nextTurn()
    expect(registry.requestedSites).toStrictEqual([['a'], ['e']])
    for (const gate of gates) gate.resolve(none)
    await Promise.all([first, other])
    await nextTurn()
    expect(registry.requestedSites).toStrictEqual([['a'], ['e'], ['b', 'c', 'd']])
    gates[2]?.resolve({ refused: ['d', 'b'], retryAfterSeconds: 5 })
    expect(summarize(await second)).toStrictEqual({ b: rateLimitText(5) })
    expect(summarize(await third)).toStrictEqual({ d: rateLimitText(5) })
  })

  test('are registered although the call before them failed', async () => {
    const { registry, gates } = blockedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = siteCache(registry, logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await nextTurn()
    const second = sites.register('key', new Set(['b']))
    gates[0]?.reject(unavailable('away'))
    expect(await first).toStrictEqual(new Map())
    expect(lines()).toHaveLength(1)
    await nextTurn()
    gates[1]?.resolve(none)
    await second
    expect(sites.register('key', new Set(['b']))).toStrictEqual(new Map())
    expect(registry.requestedSites).toStrictEqual([['a'], ['b']])
  })

  test('are accepted without registration beyond the limit of queued sites', async () => {
    const { registry, gates } = blockedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = siteCache(registry, logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await nextTurn()
    const siteSet = (from: number, count: number) => new Set(Array.from({ length: count }, (_, n) => `s${from + n}`))
    const second = sites.register('key', siteSet(0, 10_000))
    expect(await sites.register('key', siteSet(10_000, 1))).toStrictEqual(new Map())
    expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', sites: 1 })])
    gates[0]?.resolve(none)
    await first
    await nextTurn()
    expect(registry.requestedSites[1]).toHaveLength(10_000)
    gates[1]?.resolve(none)
    await second
  })
})

describe('a key that has registered 1,000 sites in a day', () => {
  let gateway: TestGateway

  beforeAll(async () => {
    gateway = await startGateway()
  })

  afterAll(async () => {
    await gateway.stop()
  })

  const max = eventLimits.newSitesPerDayMax
  const message = /^Rate limit exceeded\. Retry after (\d+) seconds\.$/
  const event = (siteId: string, parts: object = {}) => ({ site_id: siteId, event_type: 'x', ...parts })
  const retryAfter = (text = ''): number => Number(message.exec(text)?.[1])

  async function isKnown(siteId: string): Promise<boolean> {
    const rows = await gateway.postgres.db.selectFrom('sites').select('site_id').where('site_id', '=', siteId).execute()
    return rows.length > 0
  }

  test('gets 429 for a further site, or an error for its event in a batch, and the event is not stored', async () => {
    const sites = Array.from({ length: max }, (_, n) => event(`site-${n}`))
    const first = await gateway.collectBatch({ events: sites })
    expect(first.body.data).toStrictEqual({ accepted: max, rejected: 0, errors: [] })

    const alone = await gateway.collect(event('new-alone'))
    expect(alone.status).toBe(429)
    const seconds = retryAfter(alone.body.error)
    expect(seconds).toBeGreaterThan(86_000)
    expect(seconds).toBeLessThanOrEqual(86_400)
    expect(alone.headers.get('retry-after')).toBe(String(seconds))

    const mixed = await gateway.collectBatch({
      events: [
        event('site-0'),
        event('new-a', { event_id: 'first' }),
        { site_id: 'site-0', event_id: 'bad' },
        event('new-b'),
        event('site-1'),
        event('new-a', { event_id: 'again' }),
      ],
    })
    expect(mixed.status).toBe(202)
    expect(mixed.body.data).toStrictEqual({
      accepted: 2,
      rejected: 4,
      errors: [
        { index: 1, event_id: 'first', error: expect.stringMatching(message) },
        { index: 2, event_id: 'bad', error: 'Missing required field: event_type' },
        { index: 3, error: expect.stringMatching(message) },
        { index: 5, event_id: 'again', error: expect.stringMatching(message) },
      ],
    })

    const bad = await gateway.collectBatch({ events: [event('new-c'), event('new-d')] })
    expect(bad.status).toBe(400)
    expect(bad.body).toMatchObject({
      error: 'Invalid field: events holds no valid event, see data.errors',
      data: { accepted: 0, rejected: 2, errors: [{ index: 0 }, { index: 1 }] },
    })

    expect((await gateway.collect(event('site-2'))).status).toBe(202)
    await gateway.stored('site-2', 2)
    for (const siteId of ['new-alone', 'new-a', 'new-b', 'new-c', 'new-d']) {
      expect(await isKnown(siteId)).toBe(false)
      expect(await gateway.stored(siteId, 0)).toStrictEqual([])
    }

    // Another key has a limit of its own, and every key can use the sites that it registers.
    expect((await gateway.collect(event('new-a'), { key: gateway.keys.dev })).status).toBe(202)
    expect((await gateway.collect(event('new-a'))).status).toBe(202)
  })

  test('gets the first 100 errors of a batch in the order of the events, whatever their cause', async () => {
    const events = Array.from({ length: 400 }, (_, n) => (n % 2 === 0 ? { site_id: 'site-0' } : event(`more-${n}`)))
    const { body } = await gateway.collectBatch({ events: [...events, event('site-0')] })
    const { errors, ...counts } = body.data as { errors: { index: number }[] }
    expect(counts).toStrictEqual({ accepted: 1, rejected: 400 })
    expect(errors.map(({ index }) => index)).toStrictEqual(Array.from({ length: 100 }, (_, n) => n))
  })

  test('gets 202 for exactly the sites that are left, of concurrent requests with a new site each', async () => {
    await gateway.postgres.db.deleteFrom('sites').execute()
    const [left, tooMany] = [10, 50]
    const before = Array.from({ length: max - left }, (_, n) => event(`before-${n}`))
    expect((await gateway.collectBatch({ events: before }, { key: gateway.keys.dev })).status).toBe(202)
    const answers = await Promise.all(
      Array.from({ length: left + tooMany }, (_, n) => gateway.collect(event(`burst-${n}`), { key: gateway.keys.dev })),
    )
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(left)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(tooMany)
  })
})

test('an event that a gateway accepts after the deletion of its site registers the site anew', async () => {
  const gateway = await startGateway()
  try {
    const { postgres } = gateway
    const isKnown = async () => (await siteStore(postgres).find('shop')) !== undefined
    const collect = async () => (await gateway.collect({ site_id: 'shop', event_type: 'x' })).status
    expect([await collect(), await isKnown()]).toStrictEqual([202, true])
    const erasure = { erasureId: 'era_1', siteId: 'shop', kind: 'site', hashes: null, before: null } as const
    await erasureStore(postgres).createForSite({ ...erasure, keyId: 'key_1' }, () => Date.now())
    expect(await isKnown()).toBe(false)
    await waitUntil(async () => (await collect()) === 202 && isKnown(), 'it is registered anew')
  } finally {
    await gateway.stop()
  }
})

describe('a gateway without Postgres', () => {
  let gateway: ProxiedGateway

  beforeAll(async () => {
    gateway = await startGatewayBehindProxy()
    // The gateway has cached its key from now on.
    const isAccepted = async () => (await gateway.collect({ site_id: 'before', event_type: 'x' })).status === 202
    await waitUntil(isAccepted, 'the key is cached')
  })

  afterEach(() => gateway.proxy.mend())

  afterAll(() => gateway.stop())

  async function isRegistered(siteId: string): Promise<boolean> {
    const rows = await gateway.postgres.db.selectFrom('sites').select('site_id').where('site_id', '=', siteId).execute()
    return rows.length > 0
  }

  test.each(['cut', 'freeze'] as const)('accepts events of new sites after a %s of the connection', async (fail) => {
    await gateway.proxy[fail]()
    for (const send of [
      () => gateway.collect({ site_id: `new-${fail}`, event_type: 'x' }),
      () => gateway.collectBatch({ events: [{ site_id: `new-${fail}`, event_type: 'x' }] }),
      () => gateway.collect({ site_id: 'before', event_type: 'x' }),
    ]) {
      const elapsedMs = startStopwatch()
      expect((await send()).status).toBe(202)
      expect(elapsedMs()).toBeLessThan(2_500)
    }
    await gateway.stored(`new-${fail}`, 2)
    expect(await isRegistered(`new-${fail}`)).toBe(false)

    await gateway.proxy.mend()
    const register = async (): Promise<boolean> => {
      await gateway.collect({ site_id: `new-${fail}`, event_type: 'x' })
      return isRegistered(`new-${fail}`)
    }
    await waitUntil(register, 'the site is registered by a later event')
  })

  test('answers 503 for keys that are not cached', async () => {
    await gateway.proxy.cut()
    const { status, headers } = await gateway.collect({ site_id: 'before', event_type: 'x' }, { key: gateway.keys.dev })
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('1')
  })
})
