import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { SiteStore } from '@sluice/access/sites'
import type { SiteResource } from '@sluice/contracts/sites'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery
let sites: SiteStore
let number = 0

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  sites = siteStore(query.postgres)
})

afterAll(async () => {
  await query.stop()
})

const path = (siteId: string) => `/api/v1/sites/${encodeURIComponent(siteId)}`
const put = (siteId: string, body: unknown, key = query.admin) =>
  query.request(path(siteId), { method: 'PUT', body, key })
const get = async (siteId: string) => (await query.request(path(siteId))).body.data as SiteResource

const settingsOf = ({ name, timezone, conversion_event, retention_days }: SiteResource) => ({
  name,
  timezone,
  conversion_event,
  retention_days,
})

/** Creates a site with every setting and returns its id. */
async function created(): Promise<string> {
  const siteId = `site-${number++}`
  const settings = { name: 'Shop', timezone: 'Asia/Tokyo', conversion_event: 'order', retention_days: 30 }
  await sites.create(siteId, settings, 'key_admin')
  return siteId
}

describe('PUT /api/v1/sites/{site_id}', () => {
  test.each<[string, object, Partial<SiteResource>]>([
    ['its name', { name: 'New' }, { name: 'New' }],
    ['its zone', { timezone: 'europe/berlin' }, { timezone: 'Europe/Berlin' }],
    ['its conversion event', { conversion_event: 'signup' }, { conversion_event: 'signup' }],
    ['its conversion event, to the default', { conversion_event: null }, { conversion_event: null }],
    ['its retention', { retention_days: 1 }, { retention_days: 1 }],
    ['its retention, to for ever', { retention_days: null }, { retention_days: null }],
    ['several at once', { name: 'New', retention_days: null }, { name: 'New', retention_days: null }],
    ['nothing at all', {}, {}],
  ])('changes %s and leaves the rest as it is', async (_what, body, changed) => {
    const [siteId, other] = [await created(), await created()]
    const [before, otherBefore] = [await get(siteId), await get(other)]
    const response = await put(siteId, body)
    expect(response.status).toBe(200)
    expect(response.body.data).toStrictEqual({ ...before, ...changed })
    expect(await get(siteId)).toStrictEqual({ ...before, ...changed })
    expect(await get(other)).toStrictEqual(otherBefore)
  })

  test('accepts the site_id of the site itself', async () => {
    const siteId = await created()
    const before = await get(siteId)
    expect((await put(siteId, { ...settingsOf(before), site_id: siteId })).body.data).toStrictEqual(before)
    expect((await put(siteId, { site_id: siteId, name: 'New' })).body.data).toStrictEqual({ ...before, name: 'New' })
  })

  test('changes a site that is known only by its events and returns the times of these', async () => {
    await storeEvents(query, 'by its events', [1_700_000_000_000, 1_600_000_000_000])
    const { status, body } = await put('by its events', { name: 'Found' })
    expect(status).toBe(200)
    expect(body.data).toMatchObject({
      name: 'Found',
      first_event_at: 1_600_000_000_000,
      last_event_at: 1_700_000_000_000,
    })
  })

  test('is allowed with a bound key for its own sites', async () => {
    const siteId = await created()
    const key = await query.createKey({ scopes: ['admin'], siteIds: [siteId] })
    expect((await put(siteId, { name: 'Own' }, key)).body.data).toMatchObject({ name: 'Own' })
  })
})

describe('PUT /api/v1/sites/{site_id} with an invalid body', () => {
  test.each<[unknown, string]>([
    ['', 'Invalid format: body is empty, a JSON object is expected'],
    ['null', 'Invalid format: body must be a JSON object'],
    [{ name: '' }, 'Invalid field: name must not be empty'],
    [{ name: null }, 'Invalid field: name must be a string'],
    [{ timezone: '' }, 'Invalid field: timezone must not be empty'],
    [{ timezone: 'Berlin' }, 'Invalid field: timezone must be an IANA time zone, e.g. Europe/Berlin'],
    [{ conversion_event: '' }, 'Invalid field: conversion_event must not be empty'],
    [{ retention_days: 0 }, 'Invalid field: retention_days must be at least 1'],
    [{ retention_days: 3_651 }, 'Invalid field: retention_days must be at most 3650'],
    [{ name: ' \t\u2003' }, 'Invalid field: name must not be blank'],
    [{ site_id: 'other' }, "Invalid field: site_id can't be changed"],
    [{ site_id: '' }, 'Invalid field: site_id must not be empty'],
    [{ site_id: null }, 'Invalid field: site_id must be a string'],
  ])('%j is refused with 400 and the reason', async (sent, error) => {
    const siteId = await created()
    const before = await get(siteId)
    const { status, body } = await put(siteId, sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
    expect(await get(siteId)).toStrictEqual(before)
  })
})

test('an unknown site and, for a bound key, a foreign one get the same 404, and nothing is changed', async () => {
  const siteId = await created()
  const before = await get(siteId)
  const key = await query.createKey({ scopes: ['admin'], siteIds: ['own'] })
  const absent = await put('nobody', { name: 'New' })
  expect(absent.status).toBe(404)
  expect(absent.body).toStrictEqual({ success: false, error: 'Site not found', timestamp: expect.any(Number) })
  for (const hiddenId of [siteId, 'nobody']) {
    const { status, body } = await put(hiddenId, { name: 'New' }, key)
    expect(status).toBe(404)
    expect({ ...body, timestamp: 0 }).toStrictEqual({ ...absent.body, timestamp: 0 })
  }
  expect(await get(siteId)).toStrictEqual(before)
  expect(await sites.find('nobody')).toBeUndefined()
})

test('a request while ClickHouse is unavailable fails with 503 and changes nothing', async () => {
  const siteId = await created()
  const away = await startQuery({ clickHouseUrl: 'http://127.0.0.1:9/sluice' })
  await siteStore(away.postgres).create(siteId, { name: 'Shop' }, 'key_admin')
  const { status } = await away.request(path(siteId), { method: 'PUT', body: { name: 'New' } })
  expect(status).toBe(503)
  expect((await away.request('/api/v1/sites', { method: 'POST', body: { site_id: 'new' } })).status).toBe(503)
  expect((await siteStore(away.postgres).find(siteId))?.settings.name).toBe('Shop')
  expect(await siteStore(away.postgres).find('new')).toBeUndefined()
  await away.stop()
})
