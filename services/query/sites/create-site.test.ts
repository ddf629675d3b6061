import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { canonicalTimeZone } from '@sluice/contracts/sites'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'
import { createTestKey } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
})

afterAll(async () => {
  await query.stop()
})

const create = (body: unknown, key = query.admin) => query.request('/api/v1/sites', { method: 'POST', body, key })
const get = async (siteId: string) => (await query.request(`/api/v1/sites/${encodeURIComponent(siteId)}`)).body.data
const isRegistered = async (siteId: string) => (await siteStore(query.postgres).find(siteId)) !== undefined

describe('POST /api/v1/sites', () => {
  test('needs only an id, and the site is known at once', async () => {
    const before = Date.now()
    const { status, body } = await create({ site_id: 'plain' })
    expect(status).toBe(201)
    expect(body.data).toStrictEqual({
      site_id: 'plain',
      name: 'plain',
      timezone: 'UTC',
      conversion_event: null,
      retention_days: null,
      created_at: expect.any(Number),
      first_event_at: null,
      last_event_at: null,
    })
    expect(Math.abs((body.data as { created_at: number }).created_at - before)).toBeLessThan(60_000)
    expect(await get('plain')).toStrictEqual(body.data)
    const stats = await query.request('/api/v1/stats?metric=event_count&site_id=plain')
    expect(stats.body.data).toMatchObject({ value: 0 })
  })

  test('accepts every setting and records the registering key', async () => {
    const settings = {
      name: 'Web shop \u{1F600}',
      timezone: 'Europe/Berlin',
      conversion_event: 'order',
      retention_days: 3_650,
    }
    const { key, keyId } = await createTestKey(query.keys, { scopes: ['admin'] })
    const { status, body } = await create({ site_id: "it's /all?", ...settings }, key)
    expect(status).toBe(201)
    expect(body.data).toMatchObject({ site_id: "it's /all?", ...settings })
    expect(await get("it's /all?")).toStrictEqual(body.data)
    const rows = await query.postgres.db
      .selectFrom('sites')
      .select('registered_by')
      .where('site_id', '=', "it's /all?")
      .execute()
    expect(rows).toStrictEqual([{ registered_by: keyId }])
  })

  test('accepts null and "" for optional settings', async () => {
    const { body } = await create({ site_id: 'absent', name: '', conversion_event: null, retention_days: null })
    expect(body.data).toMatchObject({ name: 'absent', conversion_event: null, retention_days: null })
  })

  test('returns the times of events that came before the registration', async () => {
    await storeEvents(query, 'early', [1_700_000_000_001])
    expect((await create({ site_id: 'early' })).body.data).toMatchObject({
      first_event_at: 1_700_000_000_001,
      last_event_at: 1_700_000_000_001,
    })
  })

  test('accepts any name of a time zone in any case and keeps that name', async () => {
    for (const [sent, timezone] of [
      ['america/new_york', 'America/New_York'],
      ['US/Pacific', 'US/Pacific'],
      ['asia/kathmandu', 'Asia/Kathmandu'],
      ['Europe/Kyiv', 'Europe/Kyiv'],
      ['utc', 'UTC'],
    ]) {
      expect((await create({ site_id: `zone ${sent ?? ''}`, timezone: sent })).body.data).toMatchObject({ timezone })
    }
  })
})

test('ClickHouse knows every time zone that a site may have, except one of 2025', async () => {
  const clickHouse = openClickHouse(query.clickHouse.url)
  const { rows } = await clickHouse.query<{ name: string }>(
    'SELECT arrayJoin({names:Array(String)}) AS name WHERE name NOT IN (SELECT time_zone FROM system.time_zones)',
    { names: ['UTC', ...Intl.supportedValuesOf('timeZone')].map((name) => canonicalTimeZone(name) ?? name) },
  )
  await clickHouse.close()
  expect(rows.filter(({ name }) => name !== 'America/Coyhaique')).toStrictEqual([])
})

describe('POST /api/v1/sites with an invalid body', () => {
  const zone = 'Invalid field: timezone must be an IANA time zone, e.g. Europe/Berlin'

  test.each<[unknown, string]>([
    ['[]', 'Invalid format: body must be a JSON object'],
    [{}, 'Missing required field: site_id'],
    [{ site_id: '' }, 'Missing required field: site_id'],
    [{ site_id: 5 }, 'Invalid field: site_id must be a string'],
    [{ site_id: 's'.repeat(65) }, 'Invalid field: site_id exceeds maximum length of 64'],
    [{ site_id: 'a\0' }, 'Invalid field: site_id must not contain NUL characters'],
    [{ site_id: 's', name: 'n'.repeat(129) }, 'Invalid field: name exceeds maximum length of 128'],
    [{ site_id: 's', timezone: 'Mars/Base' }, zone],
    [{ site_id: 's', timezone: '+02:00' }, zone],
    [{ site_id: 's', timezone: null }, 'Invalid field: timezone must be a string'],
    [{ site_id: 's', conversion_event: '' }, 'Invalid field: conversion_event must not be empty'],
    [
      { site_id: 's', conversion_event: 'e'.repeat(65) },
      'Invalid field: conversion_event exceeds maximum length of 64',
    ],
    [{ site_id: 's', retention_days: 0 }, 'Invalid field: retention_days must be at least 1'],
    [{ site_id: 's', retention_days: 3_651 }, 'Invalid field: retention_days must be at most 3650'],
    [{ site_id: 's', retention_days: 1.5 }, 'Invalid field: retention_days must be an integer'],
    [{ site_id: 's', retention_days: '30' }, 'Invalid field: retention_days must be a number'],
    [{ site_id: 's', name: ' \t\u00A0' }, 'Invalid field: name must not be blank'],
    [{ site_id: 's', created_at: 1 }, 'Invalid field: created_at is not known'],
  ])('%j is refused with 400 and the reason', async (sent, error) => {
    const { status, body } = await create(sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
    expect(await isRegistered('s')).toBe(false)
  })
})

test('a site that the key is not bound to is refused with 403, known or not, and is not registered', async () => {
  await create({ site_id: 'foreign and known' })
  const key = await query.createKey({ scopes: ['admin'], siteIds: ['own'] })
  for (const siteId of ['foreign', 'foreign and known', 'OWN']) {
    const { status, body } = await create({ site_id: siteId }, key)
    expect(status).toBe(403)
    expect(body).toStrictEqual({
      success: false,
      error: 'Key is not allowed for this site',
      timestamp: expect.any(Number),
    })
  }
  expect(await isRegistered('foreign')).toBe(false)
})

test('a site that is already registered, by hand, by an event or with a key, is refused with 409 and stays as it is', async () => {
  await create({ site_id: 'twice', name: 'first' })
  await siteStore(query.postgres).registerFor('key_gateway', ['by event'])
  await query.createKey({ siteIds: ['with a key'] })
  for (const siteId of ['twice', 'by event', 'with a key']) {
    const before = await get(siteId)
    const { status, body } = await create({ site_id: siteId, name: 'second' })
    expect(status).toBe(409)
    expect(body).toStrictEqual({
      success: false,
      error: 'Site is registered already: change it with PUT',
      timestamp: expect.any(Number),
    })
    expect(await get(siteId)).toStrictEqual(before)
  }
})
