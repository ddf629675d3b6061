import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { unavailable } from '@sluice/contracts/errors'
import { type SiteRecord, siteStore } from '@sluice/postgres/sites'
import { siteLookup } from './find-site.ts'
import { startQuery, storeEvents, type TestQuery } from './query.test-support.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await migrateClickHouse(query.clickHouse.url)
})

afterAll(async () => {
  await query.stop()
})

const stats = (siteId: string) =>
  query.ask(`/api/v1/stats?metric=event_count&environment=all&site_id=${encodeURIComponent(siteId)}`)

describe('stats', () => {
  test('404 for a site that nobody has named, however often it is asked', async () => {
    for (let n = 0; n < 2; n++) {
      const { status, body } = await stats('nobody')
      expect(status).toBe(404)
      expect(body.error).toBe('Site not found')
    }
  })

  test('200 with zeros for a registered site without events', async () => {
    await siteStore(query.postgres).register(['registered'])
    const { status, body } = await stats('registered')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 0 })
  })

  test('200 for a site that was never registered but has events, which is registered then', async () => {
    await storeEvents(query, 'by its events', [Date.now()])
    const { status, body } = await stats('by its events')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 1 })
    expect(await siteStore(query.postgres).find('by its events')).toBeDefined()
  })

  test('of development alone do, too', async () => {
    await storeEvents(query, 'dev only', [Date.now()], 'dev')
    expect((await stats('dev only')).status).toBe(200)
  })

  test('names are compared exactly', async () => {
    await storeEvents(query, "it's", [Date.now()])
    expect((await stats("it's")).status).toBe(200)
    for (const other of ["IT'S", "it's ", "' OR 1 = 1 --", "it\\'s"]) expect((await stats(other)).status).toBe(404)
  })
})

describe('the look-up', () => {
  const record: SiteRecord = {
    siteId: 'shop',
    settings: { name: 'shop', timezone: 'UTC', conversion_event: null, retention_days: null },
    createdAt: new Date(),
  }

  function scripted({ autoRegister = true } = {}) {
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
      registerFor: () => Promise.reject(new Error('a look-up registers nothing in the name of a key')),
    }
    const clickHouse = {
      query: () => {
        calls.push('events')
        return Promise.resolve({ rows: state.stored ? [{} as never] : [], totals: undefined })
      },
    }
    return { calls, state, lookup: siteLookup(sites, clickHouse, { autoRegister }) }
  }

  test('finds the record of a registered site, of one that has events once it has registered it, and else none', async () => {
    const { calls, state, lookup } = scripted()
    expect(await lookup.find('shop')).toBeUndefined()
    state.stored = true
    expect(await lookup.find('shop')).toBe(record)
    expect(calls).toStrictEqual(['find', 'events', 'find', 'events', 'register', 'find'])
    expect(await lookup.find('shop')).toBe(record)
    expect(calls.slice(6)).toStrictEqual(['find'])
  })

  test('is 503 while it can not be told', async () => {
    const { state, lookup } = scripted()
    state.isAway = true
    await expect(lookup.find('shop')).rejects.toMatchObject({ status: 503 })
  })

  test('where sites are registered by hand alone asks nobody for events, and registers nothing', async () => {
    const { calls, state, lookup } = scripted({ autoRegister: false })
    state.stored = true
    expect(await lookup.find('shop')).toBeUndefined()
    expect(calls).toStrictEqual(['find'])
    state.registered = true
    expect(await lookup.find('shop')).toBe(record)
  })
})

describe('a key that is bound to sites', () => {
  test('404 for a foreign site, exactly as for an absent one; its own is 200', async () => {
    await siteStore(query.postgres).register(['foreign'])
    const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['own'] })
    const ask = (siteId: string) => query.ask(`/api/v1/stats?metric=event_count&site_id=${siteId}`, { key })
    const [foreign, absent] = [await ask('foreign'), await ask('absent')]
    expect(foreign.status).toBe(404)
    expect(foreign.body).toStrictEqual({ success: false, error: 'Site not found', timestamp: expect.any(Number) })
    expect({ ...absent.body, timestamp: 0 }).toStrictEqual({ ...foreign.body, timestamp: 0 })
    expect((await ask('own')).status).toBe(200)
    expect((await stats('foreign')).status).toBe(200)
  })
})

describe('without automatic registration', () => {
  let manual: TestQuery

  beforeAll(async () => {
    manual = await startQuery({ autoRegister: false })
    await migrateClickHouse(manual.clickHouse.url)
  })

  afterAll(async () => {
    await manual.stop()
  })

  test('404 for a site that has events, until somebody registers it', async () => {
    await storeEvents(manual, 'stored', [Date.now()])
    const ask = () => manual.ask('/api/v1/stats?metric=event_count&site_id=stored')
    expect((await ask()).status).toBe(404)
    expect((await manual.ask('/api/v1/sites/stored')).status).toBe(404)
    expect(await siteStore(manual.postgres).find('stored')).toBeUndefined()
    expect((await manual.ask('/api/v1/sites', { method: 'POST', body: { site_id: 'stored' } })).status).toBe(201)
    expect((await ask()).body.data).toMatchObject({ value: 1 })
  })
})
