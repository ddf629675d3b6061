import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { unavailable } from '@sluice/contracts/errors'
import { eventLimits } from '@sluice/contracts/event-fields'
import { waitUntil } from '@sluice/engines/processes'
import { request } from '@sluice/http/testing'
import type { Registration } from '@sluice/postgres/sites'
import { type Cuttable, cuttable } from '@sluice/postgres/testing'
import { type Supervisor, supervise } from '@sluice/runtime/supervisor'
import { capturedLogger } from '@sluice/runtime/testing'
import { startGateway, type TestGateway } from '../gateway.test-support.ts'
import { type KnownSites, knownSites, refusalOf, type SiteRegistry, type SiteRules } from './known-sites.ts'

type Answer = Pick<Registration, 'refused' | 'retryAfterSeconds'> & Partial<Registration>

const none: Answer = { refused: [], retryAfterSeconds: 0 }
const autoRegister = { autoRegister: true }

/** A registry that remembers what it was asked, and answers as the test says. */
function scriptedRegistry() {
  const asked: (readonly string[])[] = []
  const registry = {
    asked,
    answer: (): Promise<Answer> => Promise.resolve(none),
    registerFor: async (_keyId: string, siteIds: readonly string[]) => {
      asked.push(siteIds)
      return { retentionDays: new Map<string, number>(), ...(await registry.answer()) }
    },
    known: new Map<string, number | null>(),
    findKnown: (siteIds: readonly string[]) => {
      asked.push(siteIds)
      return Promise.resolve(new Map([...registry.known].filter(([siteId]) => siteIds.includes(siteId))))
    },
    changed: [] as { siteId: string; retentionDays: number | null }[],
    polls: 0,
    changedSince: (): ReturnType<SiteRegistry['changedSince']> => {
      registry.polls++
      return Promise.resolve({ sites: registry.changed, asOf: new Date() })
    },
  }
  return registry
}

const running: Supervisor[] = []

/** Runs it until the end of the test, as its process does. */
async function run(sites: KnownSites): Promise<void> {
  const supervisor = supervise([sites], capturedLogger().logger)
  running.push(supervisor)
  await supervisor.start()
}

afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()))
})

/** What sites say, in short: the refusal's message, or the days that they keep. */
function told(rules: SiteRules): Record<string, string | number> {
  return Object.fromEntries(
    [...rules].map(([siteId, rule]) => [siteId, 'refusal' in rule ? rule.refusal.message : rule.keptMs / 86_400_000]),
  )
}

const wait = (seconds: number) => `Rate limit exceeded. Retry after ${seconds} seconds.`

describe('registering', () => {
  test('happens once for each site; known ones cost nothing', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    await sites.register('key', new Set(['a', 'b']))
    await sites.register('key', new Set(['b', 'c']))
    expect(registry.asked).toStrictEqual([['a', 'b'], ['c']])
    expect(sites.register('key', new Set(['a', 'b', 'c']))).toStrictEqual(new Map())
  })

  test('is waited for: a site is known before its event is answered', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => none)
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    let done = false
    const registered = Promise.resolve(sites.register('key', new Set(['a']))).then(() => {
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
    const sites = knownSites(registry, logger, autoRegister)
    registry.answer = () => Promise.reject(unavailable('away'))
    await sites.register('key', new Set(['a']))
    expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', sites: 1 })])
    registry.answer = () => Promise.resolve(none)
    await sites.register('key', new Set(['a']))
    expect(registry.asked).toHaveLength(2)
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('with Postgres away is told once a second, with the number of sites', async () => {
    const registry = scriptedRegistry()
    const { logger, lines } = capturedLogger()
    const sites = knownSites(registry, logger, autoRegister)
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

  test('that takes too long is not waited for, and counts when it ends', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<undefined>()
    registry.answer = () => gate.promise.then(() => none)
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    const started = performance.now()
    await sites.register('key', new Set(['a']))
    expect(performance.now() - started).toBeLessThan(1_500)
    gate.resolve(undefined)
    await new Promise(setImmediate)
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('that fails after its time is no unhandled rejection', async () => {
    const registry = scriptedRegistry()
    const gate = Promise.withResolvers<never>()
    registry.answer = () => gate.promise
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    await sites.register('key', new Set(['a']))
    gate.reject(new TypeError('late'))
    await new Promise(setImmediate)
  })

  test('that breaks is told', async () => {
    const registry = scriptedRegistry()
    registry.answer = () => Promise.reject(new TypeError('broken'))
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    await expect(sites.register('key', new Set(['a']))).rejects.toThrow('broken')
  })
})

describe('sites that a key may not register', () => {
  const refuse = (...siteIds: string[]) => Promise.resolve({ refused: siteIds, retryAfterSeconds: 90 })

  test('are returned with the seconds until it may; the others are known', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('c')
    expect(told(await sites.register('key', new Set(['a', 'b', 'c'])))).toStrictEqual({ c: wait(90) })
    expect(sites.register('key', new Set(['a', 'b']))).toStrictEqual(new Map())
  })

  test('are not asked about again for a while, by that key', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('a')
    await sites.register('key', new Set(['a']))
    expect(told(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: wait(90) })
    registry.answer = () => Promise.resolve(none)
    expect(told(await sites.register('key', new Set(['b', 'a'])))).toStrictEqual({ a: wait(90) })
    expect(registry.asked).toStrictEqual([['a'], ['b']])
    // Another key may, and then everybody may write to it.
    expect(await sites.register('other', new Set(['a']))).toStrictEqual(new Map())
    expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
  })

  test('with Postgres away stay refused as long as that is known, and others are taken', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => refuse('a')
    await sites.register('key', new Set(['a']))
    registry.answer = () => Promise.reject(unavailable('away'))
    expect(told(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: wait(90) })
  })
})

describe('a site that keeps its events for some days', () => {
  const day = 86_400_000

  test('says so from the look-up on, and without another', async () => {
    const registry = scriptedRegistry()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    registry.answer = () => Promise.resolve({ ...none, retentionDays: new Map([['a', 30]]) })
    expect(told(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: 30 })
    const again = sites.register('other', new Set(['b', 'a']))
    expect(again).toBeInstanceOf(Map)
    expect(told(await again)).toStrictEqual({ a: 30 })
    expect(registry.asked).toHaveLength(1)
  })

  test('refuses what is older, by the millisecond', () => {
    const now = 1_767_000_000_000
    const rule = { keptMs: 30 * day }
    expect(refusalOf(rule, now - 30 * day, now)).toBeUndefined()
    expect(refusalOf(rule, now + 1, now)).toBeUndefined()
    expect(refusalOf(rule, now - 30 * day - 1, now)).toMatchObject({
      status: 400,
      message: 'Invalid field: timestamp must not be older than the retention_days of its site, 30',
    })
  })

  describe('and is changed', () => {
    /** A running one that polls all the time, after its first poll. */
    async function polling(registry: ReturnType<typeof scriptedRegistry>) {
      const { logger, lines } = capturedLogger()
      const sites = knownSites(registry, logger, { ...autoRegister, pollIntervalMs: 1 })
      await run(sites)
      const polled = async () => {
        const { polls } = registry
        await waitUntil(() => registry.polls > polls + 1, 'a poll is over', 5_000)
      }
      await polled()
      return { sites, lines, polled }
    }

    test('is heard of by a poll; sites that nobody sends to are not remembered', async () => {
      const registry = scriptedRegistry()
      const { sites, polled } = await polling(registry)
      await sites.register('key', new Set(['a', 'b']))
      registry.changed = [
        { siteId: 'a', retentionDays: 7 },
        { siteId: 'c', retentionDays: 9 },
      ]
      await polled()
      expect(told(await sites.register('key', new Set(['a', 'b'])))).toStrictEqual({ a: 7 })
      registry.changed = [{ siteId: 'a', retentionDays: null }]
      await polled()
      expect(sites.register('key', new Set(['a', 'b']))).toStrictEqual(new Map())
      await sites.register('key', new Set(['c']))
      expect(registry.asked).toStrictEqual([['a', 'b'], ['c']])
    })

    test('before the first poll is found then', async () => {
      const registry = scriptedRegistry()
      const { logger } = capturedLogger()
      const sites = knownSites(registry, logger, { ...autoRegister, pollIntervalMs: 1 })
      await sites.register('key', new Set(['a']))
      registry.known.set('a', 7)
      await run(sites)
      const isHeard = async () => (await sites.register('key', new Set(['a']))).size === 1
      await waitUntil(isHeard, 'the change is heard', 5_000)
    })

    test('while Postgres is away is heard of afterwards; until then what is known holds, and is told once', async () => {
      const registry = scriptedRegistry()
      registry.answer = () => Promise.resolve({ ...none, retentionDays: new Map([['a', 30]]) })
      const { sites, lines, polled } = await polling(registry)
      await sites.register('key', new Set(['a']))
      const { changedSince } = registry
      const asked: (Date | undefined)[] = []
      registry.changedSince = (since?: Date) => {
        registry.polls++
        asked.push(since)
        return Promise.reject(unavailable('away'))
      }
      await polled()
      expect(told(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 30 })
      expect(lines().filter(({ msg }) => String(msg).includes('sites can not be checked'))).toHaveLength(1)
      expect(new Set(asked).size).toBe(1)
      expect(asked[0]).toBeInstanceOf(Date)
      registry.changed = [{ siteId: 'a', retentionDays: 7 }]
      registry.changedSince = changedSince
      await polled()
      expect(told(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 7 })
    })
  })
})

describe('where sites are registered by hand alone', () => {
  const byHand = { autoRegister: false }

  test('none is registered; an unknown one is refused, which is not asked about again for a while', async () => {
    const registry = scriptedRegistry()
    registry.known.set('a', null).set('b', 7)
    registry.answer = () => Promise.reject(new Error('it was registered'))
    const sites = knownSites(registry, capturedLogger().logger, byHand)
    const expected = { b: 7, c: 'Site not found' }
    expect(told(await sites.register('key', new Set(['a', 'b', 'c'])))).toStrictEqual(expected)
    const again = sites.register('other', new Set(['a', 'b', 'c']))
    expect(again).toBeInstanceOf(Map)
    expect(told(await again)).toStrictEqual(expected)
    expect(registry.asked).toHaveLength(1)
  })

  test('one that is registered later is heard of by a poll', async () => {
    const registry = scriptedRegistry()
    const { logger } = capturedLogger()
    const sites = knownSites(registry, logger, { ...byHand, pollIntervalMs: 1 })
    expect(told(await sites.register('key', new Set(['a'])))).toStrictEqual({ a: 'Site not found' })
    registry.known.set('a', null)
    registry.changed = [{ siteId: 'a', retentionDays: null }]
    await run(sites)
    const isKnown = async () => (await sites.register('key', new Set(['a']))).size === 0
    await waitUntil(isKnown, 'it is known', 5_000)
  })

  test.each(['away', 'hanging'])(
    '503 for one that is not known yet while Postgres is %s; known ones are taken',
    async (how) => {
      const registry = scriptedRegistry()
      registry.known.set('a', null)
      const sites = knownSites(registry, capturedLogger().logger, byHand)
      await sites.register('key', new Set(['a']))
      registry.findKnown = () => (how === 'away' ? Promise.reject(unavailable('away')) : new Promise(() => undefined))
      await expect(sites.register('key', new Set(['a', 'b']))).rejects.toMatchObject({ status: 503, retryable: true })
      expect(sites.register('key', new Set(['a']))).toStrictEqual(new Map())
    },
  )
})

describe('new sites that come while Postgres registers others of the key', () => {
  function held() {
    const registry = scriptedRegistry()
    const gates: PromiseWithResolvers<Answer>[] = []
    registry.answer = () => {
      const gate = Promise.withResolvers<Answer>()
      gates.push(gate)
      return gate.promise
    }
    return { registry, gates }
  }
  const turn = () => new Promise(setImmediate)

  test('go together in the next call; each request hears of its own', async () => {
    const { registry, gates } = held()
    const sites = knownSites(registry, capturedLogger().logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await turn()
    const second = sites.register('key', new Set(['b', 'c']))
    const third = sites.register('key', new Set(['c', 'd']))
    const other = sites.register('other', new Set(['e']))
    await turn()
    expect(registry.asked).toStrictEqual([['a'], ['e']])
    for (const gate of gates) gate.resolve(none)
    await Promise.all([first, other])
    await turn()
    expect(registry.asked).toStrictEqual([['a'], ['e'], ['b', 'c', 'd']])
    gates[2]?.resolve({ refused: ['d', 'b'], retryAfterSeconds: 5 })
    expect(told(await second)).toStrictEqual({ b: wait(5) })
    expect(told(await third)).toStrictEqual({ d: wait(5) })
  })

  test('do not suffer from its failure', async () => {
    const { registry, gates } = held()
    const { logger, lines } = capturedLogger()
    const sites = knownSites(registry, logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await turn()
    const second = sites.register('key', new Set(['b']))
    gates[0]?.reject(unavailable('away'))
    expect(await first).toStrictEqual(new Map())
    expect(lines()).toHaveLength(1)
    await turn()
    gates[1]?.resolve(none)
    await second
    expect(sites.register('key', new Set(['b']))).toStrictEqual(new Map())
    expect(registry.asked).toStrictEqual([['a'], ['b']])
  })

  test('are taken unregistered when they are too many', async () => {
    const { registry, gates } = held()
    const { logger, lines } = capturedLogger()
    const sites = knownSites(registry, logger, autoRegister)
    const first = sites.register('key', new Set(['a']))
    await turn()
    const named = (from: number, count: number) => new Set(Array.from({ length: count }, (_, n) => `s${from + n}`))
    const second = sites.register('key', named(0, 10_000))
    expect(await sites.register('key', named(10_000, 1))).toStrictEqual(new Map())
    expect(lines()).toStrictEqual([expect.objectContaining({ level: 'warn', sites: 1 })])
    gates[0]?.resolve(none)
    await first
    await turn()
    expect(registry.asked[1]).toHaveLength(10_000)
    gates[1]?.resolve(none)
    await second
  })
})

describe('a key registers 1,000 sites a day', () => {
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

  test('the next one is 429 alone and an error of its event in a batch; nothing of it is stored', async () => {
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

    // Another key has its own thousand, and what it registers is there for all.
    expect((await gateway.collect(event('new-a'), { key: gateway.keys.dev })).status).toBe(202)
    expect((await gateway.collect(event('new-a'))).status).toBe(202)
  })

  test('the first 100 errors of a batch are listed by index, whatever they are', async () => {
    const events = Array.from({ length: 400 }, (_, n) => (n % 2 === 0 ? { site_id: 'site-0' } : event(`more-${n}`)))
    const { body } = await gateway.collectBatch({ events: [...events, event('site-0')] })
    const { errors, ...counts } = body.data as { errors: { index: number }[] }
    expect(counts).toStrictEqual({ accepted: 1, rejected: 400 })
    expect(errors.map(({ index }) => index)).toStrictEqual(Array.from({ length: 100 }, (_, n) => n))
  })

  test('a thousand and some that come at once are a thousand', async () => {
    await gateway.postgres.db.deleteFrom('sites').execute()
    const answers = await Promise.all(
      Array.from({ length: max + 50 }, (_, n) => gateway.collect(event(`burst-${n}`), { key: gateway.keys.dev })),
    )
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(max)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(50)
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
