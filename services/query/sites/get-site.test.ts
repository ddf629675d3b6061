import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { SiteStore } from '@sluice/access/sites'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
let sites: SiteStore

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  sites = siteStore(query.postgres)
})

afterAll(async () => {
  await query.stop()
})

const get = (siteId: string, key = query.admin) => query.request(`/api/v1/sites/${encodeURIComponent(siteId)}`, { key })

describe('GET /api/v1/sites/{site_id}', () => {
  test('returns the settings and the times of the first and last event of all environments, to the millisecond', async () => {
    const settings = { name: 'Shop', timezone: 'Asia/Tokyo', conversion_event: 'order', retention_days: 30 }
    await sites.create('shop', settings, 'key_admin')
    const [first, middle, last] = [1_600_000_000_001, 1_700_000_000_000, 1_760_000_000_999]
    await storeEvents(query, 'shop', [middle, last, middle + 1], 'dev')
    await storeEvents(query, 'shop', [first, middle])
    await storeEvents(query, 'shop ', [1])
    await storeEvents(query, 'SHOP', [2_000_000_000_000])
    const { status, body } = await get('shop')
    expect(status).toBe(200)
    expect(body.data).toStrictEqual({
      site_id: 'shop',
      ...settings,
      created_at: expect.any(Number),
      first_event_at: first,
      last_event_at: last,
    })
  })

  test('returns null as times of a site without events', async () => {
    await sites.register(['empty'])
    expect((await get('empty')).body.data).toMatchObject({ name: 'empty', first_event_at: null, last_event_at: null })
  })

  test('registers a site that is known only by its events', async () => {
    await storeEvents(query, 'by its events', [1_700_000_000_000])
    const { status, body } = await get('by its events')
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ name: 'by its events', first_event_at: 1_700_000_000_000 })
    expect(await sites.find('by its events')).toBeDefined()
  })

  test('is allowed with stats:read, and with a bound key for its own sites', async () => {
    await sites.register(['own'])
    expect((await get('own', await query.createKey({ scopes: ['stats:read'], siteIds: ['own'] }))).status).toBe(200)
  })
})

describe('a site that the request cannot see', () => {
  test('is 404, whether it is unknown or, for a bound key, a foreign one', async () => {
    await sites.register(['foreign'])
    await storeEvents(query, 'foreign by its events', [1])
    const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['own'] })
    const absent = await get('nobody')
    expect(absent.status).toBe(404)
    expect(absent.body).toStrictEqual({ success: false, error: 'Site not found', timestamp: expect.any(Number) })
    for (const siteId of ['nobody', 'foreign', 'foreign by its events', 'OWN']) {
      const { status, body } = await get(siteId, key)
      expect(status).toBe(404)
      expect({ ...body, timestamp: 0 }).toStrictEqual({ ...absent.body, timestamp: 0 })
    }
    expect(await sites.find('foreign by its events')).toBeUndefined()
  })

  test.each(['__proto__', "' OR 1 = 1 --", 'x'.repeat(5_000), 'a\0b', '\u{1F600}'])(
    'is 404 for the unknown id %j',
    async (siteId) => expect((await get(siteId)).status).toBe(404),
  )
})
