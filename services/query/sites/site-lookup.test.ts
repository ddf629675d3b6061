import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { SiteRecord, SiteRequest } from '@sluice/access/sites'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { siteStore } from '@sluice/postgres/sites'
import { unavailable } from '@sluice/runtime/errors'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'
import { siteLookup } from './site-lookup.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
})

afterAll(async () => {
  await query.stop()
})

const stats = (siteId: string) =>
  query.request(`/api/v1/stats?metric=event_count&environment=all&site_id=${encodeURIComponent(siteId)}`)

describe('GET /api/v1/stats', () => {
  test('responds with 404 for an unknown site, also when repeated', async () => {
    for (let n = 0; n < 2; n++) {
      const { status, body } = await stats('nobody')
      expect(status).toBe(404)
      expect(body.error).toBe('Site not found')
    }
  })

  test('returns zeros for a registered site without events', async () => {
    await siteStore(query.postgres).register(['registered'])
    const { status, body } = await stats('registered')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 0 })
  })

  test('counts the events of an unregistered site and registers it', async () => {
    await storeEvents(query, 'by its events', [Date.now()])
    const { status, body } = await stats('by its events')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 1 })
    expect(await siteStore(query.postgres).find('by its events')).toBeDefined()
  })

  test('finds a site that has events of development only', async () => {
    await storeEvents(query, 'dev only', [Date.now()], 'dev')
    expect((await stats('dev only')).status).toBe(200)
  })

  test('compares site ids exactly', async () => {
    await storeEvents(query, "it's", [Date.now()])
    expect((await stats("it's")).status).toBe(200)
    for (const other of ["IT'S", "it's ", "' OR 1 = 1 --", "it\\'s"]) expect((await stats(other)).status).toBe(404)
  })
})

describe('the look-up', () => {
  const record: SiteRecord = {
    siteId: 'shop',
    settings: { name: 'shop', timezone: 'UTC', conversion_event: null, retention_days: null },
    createdAt: Date.now(),
  }

  const requestOf = (keyId: string, signal = new AbortController().signal): SiteRequest => ({
    credential: { keyId, siteIds: null },
    signal,
  })
  const request = requestOf('key_test')

  function scripted({ autoRegister = true, until = Promise.resolve() } = {}) {
    const calls: string[] = []
    const state = { registered: false, stored: false, isAway: false }
    const sites = {
      find: () => {
        calls.push('find')
        if (state.isAway) return Promise.reject(unavailable('away'))
        return Promise.resolve(state.registered ? record : undefined)
      },
      register: () => {
        calls.push('register')
        state.registered = true
        return Promise.resolve()
      },
      siteDeletedAt: () => Promise.resolve(undefined),
      registerFor: () => Promise.reject(new Error('a look-up registers nothing in the name of a key')),
    }
    const clickHouse = {
      query: async () => {
        calls.push('events')
        await until
        return { rows: state.stored ? [{} as never] : [], totals: undefined }
      },
    }
    const limits = { concurrencyMax: 2, concurrencyPerKeyMax: 1, queuedPerKeyMax: 10, queueTimeoutMs: 60_000 }
    return { calls, state, lookup: siteLookup(sites, queryReader(clickHouse, { limits }), { autoRegister }) }
  }

  test('finds a registered site, registers and finds one that has events, and finds no other', async () => {
    const { calls, state, lookup } = scripted()
    expect(await lookup.find('shop', request)).toBeUndefined()
    state.stored = true
    expect(await lookup.find('shop', request)).toBe(record)
    expect(calls).toStrictEqual(['find', 'events', 'find', 'events', 'register', 'find'])
    expect(await lookup.find('shop', request)).toBe(record)
    expect(calls.slice(6)).toStrictEqual(['find'])
  })

  test('fails as unavailable while Postgres is unavailable', async () => {
    const { state, lookup } = scripted()
    state.isAway = true
    await expect(lookup.find('shop', request)).rejects.toMatchObject({ code: 'unavailable' })
  })

  test('takes its turn among the questions of its key, and leaves with its client', async () => {
    const answered = Promise.withResolvers<undefined>()
    const { calls, lookup } = scripted({ until: answered.promise })
    const sent = () => calls.filter((call) => call === 'events').length
    const leaving = new AbortController()
    const one = [lookup.find('a', request), lookup.find('b', request)]
    const left = lookup.find('c', requestOf('key_test', leaving.signal))
    await waitUntil(() => calls.length === 4, 'three sites are looked up, and one of them in the events')
    const other = lookup.find('d', requestOf('key_other'))
    await waitUntil(() => sent() === 2, 'the other key has its turn')
    leaving.abort()
    await expect(left).rejects.toMatchObject({ code: 'unavailable' })
    expect(sent()).toBe(2)
    answered.resolve(undefined)
    expect(await Promise.all([...one, other])).toStrictEqual([undefined, undefined, undefined])
    expect(sent()).toBe(3)
  })

  test('neither reads events nor registers sites without automatic registration', async () => {
    const { calls, state, lookup } = scripted({ autoRegister: false })
    state.stored = true
    expect(await lookup.find('shop', request)).toBeUndefined()
    expect(calls).toStrictEqual(['find'])
    state.registered = true
    expect(await lookup.find('shop', request)).toBe(record)
  })
})

describe('a key that is bound to sites', () => {
  test('gets the same 404 for a foreign site as for a missing one, and 200 for its own', async () => {
    await siteStore(query.postgres).register(['foreign'])
    const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['own'] })
    const requestStats = (siteId: string) =>
      query.request(`/api/v1/stats?metric=event_count&site_id=${siteId}`, { key })
    const [foreign, absent] = [await requestStats('foreign'), await requestStats('absent')]
    expect(foreign.status).toBe(404)
    expect(foreign.body).toStrictEqual({ success: false, error: 'Site not found', timestamp: expect.any(Number) })
    expect({ ...absent.body, timestamp: 0 }).toStrictEqual({ ...foreign.body, timestamp: 0 })
    expect((await requestStats('own')).status).toBe(200)
    expect((await stats('foreign')).status).toBe(200)
  })
})

describe('without automatic registration', () => {
  let manual: TestQuery

  beforeAll(async () => {
    manual = await startQuery({ autoRegister: false })
    await manual.clickHouse.create()
  })

  afterAll(async () => {
    await manual.stop()
  })

  test('a site that has events is 404 until it is registered', async () => {
    await storeEvents(manual, 'stored', [Date.now()])
    const requestStats = () => manual.request('/api/v1/stats?metric=event_count&site_id=stored')
    expect((await requestStats()).status).toBe(404)
    expect((await manual.request('/api/v1/sites/stored')).status).toBe(404)
    expect(await siteStore(manual.postgres).find('stored')).toBeUndefined()
    expect((await manual.request('/api/v1/sites', { method: 'POST', body: { site_id: 'stored' } })).status).toBe(201)
    expect((await requestStats()).body.data).toMatchObject({ value: 1 })
  })
})
