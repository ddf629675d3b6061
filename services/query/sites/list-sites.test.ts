import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { SiteResource } from '@sluice/contracts/sites'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery

const ids = ['A', 'B', ...Array.from({ length: 58 }, (_, n) => `s${String(n).padStart(2, '0')}`), 'ä', '\u{1F600}']

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(ids.toReversed())
  await storeEvents(query, 's00', [1_700_000_000_005, 1_700_000_000_001])
  await storeEvents(query, 's00', [1_760_000_000_000], 'dev')
  await storeEvents(query, '\u{1F600}', [1_650_000_000_000])
  await storeEvents(query, 'not registered', [1])
})

afterAll(async () => {
  await query.stop()
})

interface Listed {
  sites: SiteResource[]
  total: number
  limit: number
  offset: number
}

const list = (search = '', key = query.admin) => query.request(`/api/v1/sites${search}`, { key })
const idsOf = ({ sites }: Listed) => sites.map(({ site_id }) => site_id)

test('the list has 50 sites by default, in the order of their ids, and the total number', async () => {
  const { status, body } = await list()
  expect(status).toBe(200)
  const data = body.data as Listed
  expect(Object.keys(data)).toStrictEqual(['sites', 'total', 'limit', 'offset'])
  expect(data).toMatchObject({ total: 62, limit: 50, offset: 0 })
  expect(idsOf(data)).toStrictEqual(ids.slice(0, 50))
})

test.each([
  ['?limit=1', 0, 1],
  ['?limit=1000', 0, 62],
  ['?limit=5&offset=59', 59, 62],
  ['?offset=62', 62, 62],
  ['?offset=9007199254740991', 62, 62],
])('the list has the requested page for %s', async (search, from, to) => {
  const { status, body } = await list(search)
  expect(status).toBe(200)
  expect(idsOf(body.data as Listed)).toStrictEqual(ids.slice(from, to))
  expect(body.data).toMatchObject({ total: 62 })
})

test('each entry of the list is the resource that reading the site returns, with the times of its events', async () => {
  const { sites } = (await list('?limit=1000')).body.data as Listed
  for (const siteId of ['A', 's00', '\u{1F600}']) {
    const entry = sites.find(({ site_id }) => site_id === siteId)
    expect(entry).toStrictEqual((await query.request(`/api/v1/sites/${encodeURIComponent(siteId)}`)).body.data)
  }
  expect(sites.find(({ site_id }) => site_id === 's00')).toMatchObject({
    first_event_at: 1_700_000_000_001,
    last_event_at: 1_760_000_000_000,
  })
  expect(sites.filter(({ first_event_at: first }) => first !== null)).toHaveLength(2)
})

test('a bound key lists and counts only its own sites', async () => {
  const key = await query.createKey({ scopes: ['stats:read'], siteIds: ['s01', 'B'] })
  expect(idsOf((await list('', key)).body.data as Listed)).toStrictEqual(['B', 's01'])
  const page = (await list('?limit=1&offset=1', key)).body.data as Listed
  expect(page).toMatchObject({ total: 2, limit: 1, offset: 1 })
  expect(idsOf(page)).toStrictEqual(['s01'])
})

describe('an invalid page of sites', () => {
  test.each([
    ['limit=0', 'limit must be at least 1'],
    ['limit=1001', 'limit must be at most 1000'],
    ['offset=-1', 'offset must be at least 0'],
    ['site_id=A', 'site_id is not a known parameter'],
  ])('?%s is refused with 400', async (search, reason) => {
    const { status, body } = await list(`?${search}`)
    expect(status).toBe(400)
    expect(body.error).toBe(`Invalid field: ${reason}`)
  })
})
