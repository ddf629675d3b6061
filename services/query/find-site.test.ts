import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parseClickHouseUrl } from '@sluice/clickhouse/client'
import { eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { unavailable } from '@sluice/contracts/errors'
import { siteStore } from '@sluice/postgres/sites'
import { siteLookup } from './find-site.ts'
import { startQuery, type TestQuery } from './query.test-support.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await migrateClickHouse(query.clickHouse.url)
})

afterAll(async () => {
  await query.stop()
})

/** Stores an event as the writer does. */
async function storeEvent(siteId: string, environment = 'prod'): Promise<void> {
  const inserter = eventInserter(parseClickHouseUrl(query.clickHouse.url))
  const now = Date.now()
  const row = {
    site_id: siteId,
    environment,
    event_type: 'x',
    timestamp: now,
    event_id: 'e1',
    received_at: now,
  }
  await inserter.insert(
    { payloads: [Buffer.from(`${JSON.stringify(row)}\n`)], undated: false },
    { queryId: `test-${siteId}`, replaceRunning: false, timeoutMs: 10_000 },
  )
  inserter.close()
}

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
    await storeEvent('by its events')
    const { status, body } = await stats('by its events')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 1 })
    expect(await siteStore(query.postgres).isKnown('by its events')).toBe(true)
  })

  test('of development alone do, too', async () => {
    await storeEvent('dev only', 'dev')
    expect((await stats('dev only')).status).toBe(200)
  })

  test('names are compared exactly', async () => {
    await storeEvent("it's")
    expect((await stats("it's")).status).toBe(200)
    for (const other of ["IT'S", "it's ", "' OR 1 = 1 --", "it\\'s"]) expect((await stats(other)).status).toBe(404)
  })
})

describe('the look-up', () => {
  function scripted() {
    const calls: string[] = []
    const state = { registered: false, stored: false, isAway: false }
    const sites = {
      isKnown: () => {
        calls.push('isKnown')
        return state.isAway ? Promise.reject(unavailable('away')) : Promise.resolve(state.registered)
      },
      register: () => {
        calls.push('register')
        return Promise.resolve()
      },
    }
    const clickHouse = {
      query: () => {
        calls.push('events')
        return Promise.resolve({ rows: state.stored ? [{} as never] : [], totals: undefined })
      },
    }
    return { calls, state, lookup: siteLookup(sites, clickHouse) }
  }

  test('remembers a known site for a moment, and an unknown one not at all', async () => {
    const { calls, state, lookup } = scripted()
    expect(await lookup.isKnown('shop')).toBe(false)
    state.registered = true
    expect(await lookup.isKnown('shop')).toBe(true)
    const before = calls.length
    expect(await lookup.isKnown('shop')).toBe(true)
    expect(calls).toHaveLength(before)
    // Deleted meanwhile: forgotten within a second or two.
    state.registered = false
    const deadline = performance.now() + 5_000
    while (await lookup.isKnown('shop')) {
      expect(performance.now()).toBeLessThan(deadline)
      await new Promise(setImmediate)
    }
  })

  test('asks ClickHouse only for what Postgres does not know', async () => {
    const { calls, state, lookup } = scripted()
    state.registered = true
    await lookup.isKnown('shop')
    expect(calls).toStrictEqual(['isKnown'])
  })

  test('is 503 while it can not be told', async () => {
    const { state, lookup } = scripted()
    state.isAway = true
    await expect(lookup.isKnown('shop')).rejects.toMatchObject({ status: 503 })
  })
})
