import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
/** Ids of all keys, newest first. */
let ids: string[]

const list = (search = '') => query.request(`/api/v1/settings/keys${search}`)

interface Listed {
  keys: { key_id: string; name: string }[]
  total: number
  limit: number
  offset: number
}

beforeAll(async () => {
  query = await startQuery()
  for (let n = 0; n < 60; n++) await query.createKey({ scopes: ['stats:read'] })
  const { keys } = await query.keys.list({ limit: 1_000, offset: 0 }, null)
  ids = keys.map(({ keyId }) => keyId)
})

afterAll(async () => {
  await query.stop()
})

test('the list has 50 keys by default, newest first, and the total number', async () => {
  const { status, body } = await list()
  expect(status).toBe(200)
  const data = body.data as Listed
  expect(Object.keys(data)).toStrictEqual(['keys', 'total', 'limit', 'offset'])
  expect(data).toMatchObject({ total: 61, limit: 50, offset: 0 })
  expect(data.keys.map(({ key_id }) => key_id)).toStrictEqual(ids.slice(0, 50))
})

test('each entry of the list is the record that reading the key returns', async () => {
  const data = (await list('?limit=1')).body.data as Listed
  const [first] = data.keys
  expect(first).toStrictEqual((await query.request(`/api/v1/settings/keys/${first?.key_id ?? ''}`)).body.data)
  expect(JSON.stringify(data)).not.toMatch(/hash|svc_prod_\w/)
})

test.each([
  ['?limit=1', [0, 1]],
  ['?limit=1000', [0, 61]],
  ['?offset=60', [60, 61]],
  ['?offset=61', [61, 61]],
  ['?limit=5&offset=10', [10, 15]],
  ['?offset=9007199254740991', [61, 61]],
])('the list has the requested page for %s', async (search, [from, to]) => {
  const { status, body } = await list(search)
  expect(status).toBe(200)
  const data = body.data as Listed
  expect(data.keys.map(({ key_id }) => key_id)).toStrictEqual(ids.slice(from, to))
  expect(data.total).toBe(61)
})

test('revoked keys stay in the list with the time of their revocation', async () => {
  const [last = ''] = ids
  await query.request(`/api/v1/settings/keys/${last}`, { method: 'DELETE' })
  const data = (await list('?limit=1')).body.data as Listed
  expect(data.keys).toStrictEqual([expect.objectContaining({ key_id: last, revoked_at: expect.any(Number) })])
})

describe('an invalid page of keys', () => {
  test.each([
    ['limit=0', 'limit must be at least 1'],
    ['limit=1001', 'limit must be at most 1000'],
    ['limit=x', 'limit must be a number'],
    ['limit=', 'limit must be a number'],
    ['limit=1&limit=2', 'limit must be given only once'],
    ['offset=-1', 'offset must be at least 0'],
    ['offset=1.5', 'offset must be an integer'],
    ['offset=9007199254740993', 'offset must be from 0 to 9007199254740991'],
    ['page=1', 'page is not a known parameter'],
  ])('?%s is refused with 400', async (search, reason) => {
    const { status, body } = await list(`?${search}`)
    expect(status).toBe(400)
    expect(body.error).toBe(`Invalid field: ${reason}`)
  })
})

test('an api_key in the query string is not treated as a parameter', async () => {
  const { status } = await query.request(`/api/v1/settings/keys?limit=1&api_key=${query.admin}`, { key: '' })
  expect(status).toBe(200)
})

test('a key that is bound to sites lists and counts only the keys of its sites', async () => {
  const sites = ['own', 'also-own']
  const key = await query.createKey({ scopes: ['admin'], siteIds: sites, name: 'asker' })
  await query.createKey({ siteIds: ['own'], name: 'part' })
  for (const siteIds of [null, ['other'], ['own', 'other']]) await query.createKey({ siteIds, name: 'hidden' })
  const { status, body } = await query.request('/api/v1/settings/keys', { key })
  expect(status).toBe(200)
  const data = body.data as Listed
  expect(data.keys.map(({ name }) => name)).toStrictEqual(['part', 'asker'])
  expect(data.total).toBe(2)
  const page = (await query.request('/api/v1/settings/keys?limit=1&offset=1', { key })).body.data as Listed
  expect(page.keys.map(({ name }) => name)).toStrictEqual(['asker'])
  expect(page.total).toBe(2)
})
