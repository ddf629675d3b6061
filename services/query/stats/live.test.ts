import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { LiveResult } from '@sluice/contracts/live'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/support/api-request.ts'
import {
  allSitesKnown,
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
} from '../../../tests/support/stats-database.ts'
import { liveRoute } from './live.ts'

const minute = 1 / 60
const ms = 1 / hour

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function requestLive(query: Record<string, string>, parts: Partial<ApiRequest> = {}): Promise<LiveResult> {
  const { handle } = liveRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
  const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
  return data as LiveResult
}

test('minutes are counted from the oldest to the one that ends now', async () => {
  const site_id = await database.siteWith(
    [-31 * minute, -30 * minute, -29 * minute - ms, -5 * minute - ms, -5 * minute, -minute, -ms, -ms, 0, minute].map(
      (at) => ({ at }),
    ),
  )
  const { per_minute, events_5m } = await requestLive({ site_id })
  expect(per_minute).toStrictEqual([2, ...Array<number>(23).fill(0), 1, 1, 0, 0, 0, 3])
  expect(events_5m).toBe(4)
})

test('visitors are those of the last five minutes', async () => {
  const site_id = await database.siteWith([
    { at: -6 * minute, user_id: 'gone' },
    { at: -5 * minute, user_id: 'u' },
    { at: -ms, user_id: 'u' },
    { at: -ms, anonymous_id: 'u' },
    { at: -ms, session_id: 's' },
    { at: -ms },
  ])
  expect(await requestLive({ site_id })).toMatchObject({ visitors_5m: 3, events_5m: 5 })
})

test('the last events are sorted newest first, with all fields and the sent types of properties', async () => {
  const site_id = await database.siteWith([
    { at: -25 },
    { at: -23, event_id: 'old' },
    { at: -1, event_id: 'a' },
    { at: -1, event_id: 'b' },
    {
      at: -minute,
      event_id: 'whole',
      event_type: 'purchase',
      session_id: 's',
      user_id: 'u',
      anonymous_id: 'a',
      url: '/x',
      referrer: 'https://y.example',
      country: 'DE',
      device_type: 'mobile',
      received_at: noon - 5,
      properties: { plan: 'pro', price: '19.99', ok: 'true', tags: '["a",1]', __proto__x: 'z' },
      property_types: { price: 'number', ok: 'boolean', tags: 'array' },
    },
    { at: 1, event_id: 'to come' },
  ])
  const { last_events } = await requestLive({ site_id })
  expect(last_events.map(({ event_id }) => event_id)).toStrictEqual(['whole', 'b', 'a', 'old'])
  expect(last_events[0]).toStrictEqual({
    event_id: 'whole',
    site_id,
    event_type: 'purchase',
    timestamp: noon - hour * minute,
    received_at: noon - 5,
    environment: 'prod',
    session_id: 's',
    user_id: 'u',
    anonymous_id: 'a',
    url: '/x',
    referrer: 'https://y.example',
    country: 'DE',
    device_type: 'mobile',
    properties: { plan: 'pro', price: 19.99, ok: true, tags: ['a', 1], __proto__x: 'z' },
  })
  expect(last_events[1]).not.toHaveProperty('properties')
  expect(last_events[1]).not.toHaveProperty('country')
})

test('there are at most 50 last events, and none that is older than 24 hours', async () => {
  const site_id = await database.siteWith(
    Array.from({ length: 60 }, (_, index) => ({ at: -1 - index, event_id: `${index}` })),
  )
  const { last_events } = await requestLive({ site_id })
  expect(last_events.map(({ event_id }) => event_id)).toStrictEqual(
    Array.from({ length: 24 }, (_, index) => `${index}`),
  )
  const crowded = await database.siteWith(
    Array.from({ length: 60 }, (_, index) => ({ at: -minute, event_id: `${index}` })),
  )
  expect((await requestLive({ site_id: crowded })).last_events).toHaveLength(50)
})

test('the filter chooses the events that are counted and listed', async () => {
  const site_id = await database.siteWith([
    { at: -minute, user_id: 'u', country: 'DE', event_id: 'a' },
    { at: -minute, user_id: 'v', country: 'FR', event_id: 'b' },
    { at: -10 * minute, user_id: 'v', country: 'DE', event_id: 'c' },
  ])
  const filter = JSON.stringify([{ property: 'country', operator: 'equals', value: 'de' }])
  const live = await requestLive({ site_id, filter })
  expect(live).toMatchObject({ visitors_5m: 1, events_5m: 1 })
  expect(live.per_minute.reduce((sum, count) => sum + count, 0)).toBe(2)
  expect(live.last_events.map(({ event_id }) => event_id)).toStrictEqual(['a', 'c'])

  const known = JSON.stringify([{ property: 'user.plan', operator: 'exists' }])
  expect(await requestLive({ site_id, filter: known })).toMatchObject({ events_5m: 0, last_events: [] })
  await expect(requestLive({ site_id, filter: '{}' })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: filter must be a list of conditions',
  })
})

test('a site without events has zeros', async () => {
  expect(await requestLive({ site_id: 'empty' })).toStrictEqual({
    visitors_5m: 0,
    events_5m: 0,
    per_minute: Array<number>(30).fill(0),
    last_events: [],
    complete_until: noon,
  })
})

test('the answer is complete without the backfill log, of which it reads none', async () => {
  const site_id = await database.siteWith([])
  const { handle } = liveRoute({
    eventReader: queryReader(database.reader),
    ...allSitesKnown(),
    readCompleteUntil: (readsFrom) => (readsFrom >= noon - 24 * hour ? noon - 1 : 1),
  })
  const { data } = await handle(apiRequest({ receivedAt: noon, query: { site_id } }))
  expect(data).toMatchObject({ complete_until: noon - 1 })
})

test('the environment is that of the credential, unless the request names one', async () => {
  const site_id = await database.siteWith([
    { at: -minute, environment: 'dev' },
    { at: -minute, environment: 'prod' },
    { at: -minute, environment: 'prod' },
  ])
  expect((await requestLive({ site_id })).events_5m).toBe(2)
  expect((await requestLive({ site_id, environment: 'dev' })).events_5m).toBe(1)
  expect((await requestLive({ site_id, environment: 'all' })).last_events).toHaveLength(3)
})

test('wrong parameters are refused with 400, a site that the key may not read with 404', async () => {
  await expect(requestLive({})).rejects.toMatchObject({
    code: 'missing_field',
    message: 'Missing required field: site_id',
  })
  await expect(requestLive({ site_id: 's', period: '1h' })).rejects.toMatchObject({ code: 'invalid_field' })
  await expect(requestLive({ site_id: 's', environment: 'test' })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: environment must be one of: prod, dev, all',
  })
  const { credential } = apiRequest()
  await expect(requestLive({ site_id: 's' }, { credential: { ...credential, siteIds: [] } })).rejects.toMatchObject({
    code: 'not_found',
    message: 'Site not found',
  })
})
