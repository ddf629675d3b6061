import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { CohortResource } from '@sluice/contracts/cohorts'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
let own: string

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop', 'other', 'empty'])
  own = await query.createKey({ scopes: ['cohorts:read', 'cohorts:write'], siteIds: ['shop'] })
})

afterAll(async () => {
  await query.stop()
})

const buyers = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }] }

async function made(name = 'Buyers', siteId = 'shop'): Promise<CohortResource> {
  const body = { site_id: siteId, name, description: 'who bought', criteria: buyers }
  return (await query.request('/api/v1/cohorts', { method: 'POST', body })).body.data as CohortResource
}

const path = (cohortId: string) => `/api/v1/cohorts/${encodeURIComponent(cohortId)}`
const change = (cohortId: string, body: unknown, key = own) =>
  query.request(path(cohortId), { method: 'PUT', body, key })

describe('GET /api/v1/cohorts', () => {
  test('lists the cohorts of a site, newest first, in pages', async () => {
    for (const name of ['1', '2', '3']) await made(name, 'other')
    const list = async (page: string) => (await query.request(`/api/v1/cohorts?site_id=other${page}`)).body.data
    const all = (await list('')) as { cohorts: CohortResource[] }
    expect(all).toMatchObject({ total: 3, limit: 50, offset: 0 })
    expect(all.cohorts.map(({ name }) => name)).toStrictEqual(['3', '2', '1'])
    expect(await list('&limit=1&offset=1')).toStrictEqual({ cohorts: [all.cohorts[1]], total: 3, limit: 1, offset: 1 })
  })

  test('returns an empty list for a site without cohorts', async () => {
    const { body } = await query.request('/api/v1/cohorts?site_id=empty')
    expect(body.data).toStrictEqual({ cohorts: [], total: 0, limit: 50, offset: 0 })
  })

  test.each([
    ['', 'Missing required field: site_id'],
    ['site_id=', 'Missing required field: site_id'],
    ['site_id=shop&site_id=other', 'Invalid field: site_id must be given only once'],
    ['site_id=shop&limit=0', 'Invalid field: limit must be at least 1'],
    ['site_id=shop&limit=1001', 'Invalid field: limit must be at most 1000'],
    ['site_id=shop&offset=-1', 'Invalid field: offset must be at least 0'],
    ['site_id=shop&limit=x', 'Invalid field: limit must be a number'],
    ['site_id=shop&name=x', 'Invalid field: name is not a known parameter'],
  ])('refuses the query "%s" with 400', async (parameters, error) => {
    const { status, body } = await query.request(`/api/v1/cohorts?${parameters}`)
    expect(status).toBe(400)
    expect(body.error).toBe(error)
  })

  test('responds with 404 for a missing site and for one that the key is not bound to', async () => {
    for (const siteId of ['nobody', 'other']) {
      const { status, body } = await query.request(`/api/v1/cohorts?site_id=${siteId}`, { key: own })
      expect(status).toBe(404)
      expect(body.error).toBe('Site not found')
    }
  })
})

describe('PUT /api/v1/cohorts/{cohort_id}', () => {
  test('keeps the value of fields that are left out', async () => {
    const before = await made()
    const { status, body } = await change(before.cohort_id, { name: 'Customers' })
    expect(status).toBe(200)
    const after = body.data as CohortResource
    expect(after).toStrictEqual({ ...before, name: 'Customers', updated_at: after.updated_at })
    expect(after.updated_at).toBeGreaterThanOrEqual(before.created_at)
    expect((await query.request(path(before.cohort_id))).body.data).toStrictEqual(after)
    expect((await change(before.cohort_id, {})).body.data).toStrictEqual(after)
  })

  test('accepts the site_id of the cohort itself', async () => {
    const before = await made()
    expect((await change(before.cohort_id, { site_id: 'shop' })).body.data).toStrictEqual(before)
    const { body } = await change(before.cohort_id, { site_id: 'shop', name: 'Customers' })
    expect(body.data).toMatchObject({ site_id: 'shop', name: 'Customers' })
  })

  test.each([null, ''])('removes the description when it is %j', async (description) => {
    const { cohort_id } = await made()
    expect((await change(cohort_id, { description })).body.data).toMatchObject({ description: null, name: 'Buyers' })
  })

  test('replaces the criteria', async () => {
    const { cohort_id } = await made()
    const criteria = { type: 'or', conditions: [{ property: 'plan', operator: 'not_exists' }] }
    expect((await change(cohort_id, { criteria })).body.data).toMatchObject({ criteria, name: 'Buyers' })
  })

  test.each<[unknown, string]>([
    ['[]', 'Invalid format: body must be a JSON object'],
    [{ name: null }, 'Invalid field: name must be a string'],
    [{ name: '' }, 'Invalid field: name must not be empty'],
    [{ criteria: null }, 'Invalid field: criteria must be an object {type, conditions}'],
    [
      { criteria: { type: 'and', conditions: [{ property: 'plan', operator: 'is' }] } },
      'Invalid field: criteria.conditions.0.operator must be one of: equals, not_equals, contains, not_contains, starts_with, ends_with, in, not_in, greater_than, greater_than_or_equal, less_than, less_than_or_equal, matches, exists, not_exists',
    ],
    [{ name: ' \t\u2003' }, 'Invalid field: name must not be blank'],
    [{ site_id: 'other' }, "Invalid field: site_id can't be changed"],
    [{ site_id: null, name: 'New' }, 'Invalid field: site_id must be a string'],
  ])('refuses %j with 400 and changes nothing', async (sent, error) => {
    const before = await made()
    const { status, body } = await change(before.cohort_id, sent)
    expect(status).toBe(400)
    expect(body.error).toBe(error)
    expect((await query.request(path(before.cohort_id))).body.data).toStrictEqual(before)
  })
})

describe('DELETE /api/v1/cohorts/{cohort_id}', () => {
  test('deletes the cohort, so that later requests get 404', async () => {
    const { cohort_id } = await made()
    const { status, body } = await query.request(path(cohort_id), { method: 'DELETE', key: own })
    expect(status).toBe(200)
    expect(body).toStrictEqual({ success: true, timestamp: expect.any(Number) })
    expect((await query.request(path(cohort_id))).status).toBe(404)
    expect((await query.request(path(cohort_id), { method: 'DELETE' })).status).toBe(404)
  })
})

test('a missing cohort and one of a site that the key is not bound to are both 404, and nothing is changed', async () => {
  const foreign = await made('foreign', 'other')
  for (const cohortId of [foreign.cohort_id, 'coh_unknown', "' OR 1=1", 'x'.repeat(1_000), '%00']) {
    for (const request of [{}, { method: 'PUT', body: { name: 'mine' } }, { method: 'DELETE' }]) {
      const { status, body } = await query.request(path(cohortId), { ...request, key: own })
      expect({ cohortId, request, status }).toStrictEqual({ cohortId, request, status: 404 })
      expect(body.error).toBe('Cohort not found')
    }
  }
  expect((await query.request(path(foreign.cohort_id))).body.data).toStrictEqual(foreign)
})

describe.each(['cohorts', 'retention'])('GET /api/v1/analytics/%s', (name) => {
  const analyze = (siteId: string, cohortId: string, key?: string) =>
    query.request(
      `/api/v1/analytics/${name}?site_id=${siteId}&cohort_id=${cohortId}&weeks=1`,
      key === undefined ? {} : { key },
    )

  test('analyses a cohort of the site', async () => {
    const { cohort_id } = await made()
    const { status, body } = await analyze('shop', cohort_id, own)
    expect(status).toBe(200)
    const row = { week: 0, retention_rate: 0, cohort_size: 0, returning_users: 0 }
    expect(body.data).toMatchObject(
      name === 'cohorts'
        ? { cohort_id, cohort_name: 'Buyers', size: 0, retention_by_week: [row] }
        : { site_id: 'shop', weeks: 1, timezone: 'UTC', cohorts: [{ size: 0, retention_by_week: [row] }], average: [] },
    )
  })

  test('responds with 404 for a cohort of another site, even when the key may read both sites', async () => {
    const { cohort_id } = await made('foreign', 'other')
    for (const response of [await analyze('shop', cohort_id), await analyze('shop', 'coh_unknown')]) {
      expect(response.status).toBe(404)
      expect(response.body.error).toBe('Cohort not found')
    }
    expect((await analyze('other', cohort_id, own)).body.error).toBe('Site not found')
  })
})
