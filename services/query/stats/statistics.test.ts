import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'

const minute = 60_000
const now = Date.now()
const siteId = 'shop'
const criteria = { type: 'and', conditions: [{ property: 'user_id', operator: 'exists' }] }
let query: TestQuery
let key: string

/** Every response is also compared with the OpenAPI document (tests/support/test-service.ts). */
beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  const settings = { timezone: 'Asia/Kathmandu', conversion_event: 'signup' }
  await siteStore(query.postgres).create(siteId, settings, 'key_test')
  await siteStore(query.postgres).create('other', {}, 'key_test')
  key = await query.createKey({ scopes: ['stats:read', 'cohorts:read'] })

  const row = { site_id: siteId, environment: 'prod', session_id: 's', user_id: 'u', received_at: now }
  const events = [
    { event_type: 'view', timestamp: now - 2 * minute, url: 'https://a.example/x', properties: { plan: 'pro' } },
    {
      event_type: 'signup',
      timestamp: now - minute,
      properties: { n: '1', l: '[1]', e: '' },
      property_types: { n: 'number', l: 'array' },
    },
  ]
  const lines = events.map((event, index) => JSON.stringify({ ...row, ...event, event_id: `e${index}` }))
  const inserter = openEventInserter(query.clickHouse.url)
  const batch = { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false }
  await inserter.insert(batch, { queryId: 'test-http', shouldReplaceRunning: false, timeoutMs: 10_000 })
  await inserter.close()
})

afterAll(async () => {
  await query.stop()
})

const request = async (path: string, parameters: Record<string, string>, body?: unknown) =>
  query.request(`${path}?${new URLSearchParams(parameters).toString()}`, {
    key,
    ...(body === undefined ? {} : { method: 'POST', body }),
  })

describe('GET /api/v1/stats', () => {
  test('uses the site’s settings as defaults', async () => {
    const { status, body } = await request('/api/v1/stats', {
      site_id: siteId,
      metric: 'conversion_rate',
      group_by: 'day',
    })
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 100, timezone: 'Asia/Kathmandu', group_by: 'day' })
  })

  test.each(['url', 'path', 'event_type', 'properties.plan', 'hour', 'month'])(
    'groups by %s and compares',
    async (group_by) => {
      for (const metric of ['visitors', 'event_count_by_type', 'avg_session_duration']) {
        const { status } = await request('/api/v1/stats', {
          site_id: siteId,
          metric,
          group_by,
          compare: 'previous_year',
        })
        expect(status).toBe(200)
      }
    },
  )
})

test('every response that counts events has complete_until after a writer has reported', async () => {
  const { body: cohort } = await query.request('/api/v1/cohorts', {
    method: 'POST',
    body: { site_id: siteId, name: 'all', criteria },
  })
  const { cohort_id } = cohort.data as { cohort_id: string }
  const requests: [string, Record<string, string>, unknown?][] = [
    ['/api/v1/stats', { site_id: siteId, metric: 'event_count' }],
    ['/api/v1/live', { site_id: siteId }],
    ['/api/v1/funnel', {}, { site_id: siteId, steps: [{ event_type: 'view' }, { event_type: 'signup' }] }],
    ['/api/v1/analytics/retention', { site_id: siteId }],
    ['/api/v1/analytics/cohorts', { site_id: siteId, cohort_id }],
    ['/api/v1/cohorts/preview', {}, { site_id: siteId, criteria }],
  ]
  const readCompleteUntil = () =>
    Promise.all(
      requests.map(async (each) => {
        const { body } = await request(...each)
        return (body.data as { complete_until: number }).complete_until
      }),
    )
  expect(await readCompleteUntil()).toStrictEqual(requests.map(() => 0))
  await watermarkStore(query.postgres).advance('log', [now, now + 1])
  const isKnown = async () => (await readCompleteUntil()).every((until) => until === now)
  await waitUntil(isKnown, 'all say it')
})

test('POST /api/v1/stats/batch counts each of its queries against the rate limit', async () => {
  const queries = [{ site_id: siteId, metric: 'event_count', period: '1h', exact: true }, { site_id: 'nobody' }, {}]
  const { status, headers, body } = await request('/api/v1/stats/batch', {}, { queries })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({
    results: [
      { data: { value: 2 } },
      { success: false, status: 400, error: 'Missing required field: metric' },
      { success: false },
    ],
  })
  const before = Number(headers.get('x-ratelimit-remaining'))
  const after = await request('/api/v1/stats/batch', {}, { queries })
  expect(before - Number(after.headers.get('x-ratelimit-remaining'))).toBe(3)
})

test('GET /api/v1/live responds as documented', async () => {
  const { status, body } = await request('/api/v1/live', { site_id: siteId })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({
    visitors_5m: 1,
    events_5m: 2,
    last_events: [{ event_type: 'signup', properties: { n: 1, l: [1], e: '' } }, { event_type: 'view' }],
  })
})

test('GET /api/v1/events responds as documented', async () => {
  const { status, body } = await request('/api/v1/events', { site_id: siteId, limit: '1' })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ events: [{ event_type: 'signup', properties: { n: 1, l: [1], e: '' } }] })
  const { next_before: before } = body.data as { next_before: string }
  const second = await request('/api/v1/events', { site_id: siteId, limit: '1', before })
  expect(second.body.data).toMatchObject({ events: [{ event_type: 'view' }], next_before: null })
  const bad = await request('/api/v1/events', { site_id: siteId, before: 'x' })
  expect(bad).toMatchObject({
    status: 400,
    body: { error: 'Invalid field: before must be the next_before value of an earlier response' },
  })
  expect((await request('/api/v1/events', { site_id: 'nobody' })).status).toBe(404)
})

test('GET /api/v1/properties responds as documented', async () => {
  const { status, body } = await request('/api/v1/properties', { site_id: siteId })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ properties: [{ name: 'event_type', count: 2 }, { name: 'path' }, {}, {}, {}, {}] })
})

test('POST /api/v1/funnel responds as documented', async () => {
  const steps = [{ event_type: 'view' }, { event_type: 'signup' }]
  const { status, body } = await request('/api/v1/funnel', {}, { site_id: siteId, steps, period: '1h' })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ steps: [{ users: 1 }, { users: 1, rate_from_previous: 100 }] })
  expect((await request('/api/v1/funnel', {}, { site_id: 'nobody', steps })).status).toBe(404)
})
