import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parseClickHouseUrl } from '@sluice/clickhouse/client'
import { eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { waitUntil } from '@sluice/engines/processes'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { startQuery, type TestQuery } from './query.test-support.ts'

const minute = 60_000
const now = Date.now()
const siteId = 'shop'
let query: TestQuery
let key: string

/** Every answer is compared with the OpenAPI document besides (packages/http/testing.ts). */
beforeAll(async () => {
  query = await startQuery()
  await migrateClickHouse(query.clickHouse.url)
  const settings = { timezone: 'Asia/Kathmandu', conversion_event: 'signup' }
  await siteStore(query.postgres).create(siteId, settings, 'key_test')
  await siteStore(query.postgres).create('other', {}, 'key_test')
  key = await query.createKey({ scopes: ['stats:read'] })

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
  const inserter = eventInserter(parseClickHouseUrl(query.clickHouse.url))
  const batch = { payloads: [Buffer.from(lines.join('\n'))], undated: false }
  await inserter.insert(batch, { queryId: 'test-http', replaceRunning: false, timeoutMs: 10_000 })
  inserter.close()
})

afterAll(async () => {
  await query.stop()
})

const ask = async (path: string, parameters: Record<string, string>, body?: unknown) =>
  query.ask(`${path}?${new URLSearchParams(parameters).toString()}`, {
    key,
    ...(body === undefined ? {} : { method: 'POST', body }),
  })

describe('GET /api/v1/stats', () => {
  test('what the request does not say, the site does', async () => {
    const { status, body } = await ask('/api/v1/stats', { site_id: siteId, metric: 'conversion_rate', group_by: 'day' })
    expect(status).toBe(200)
    expect(body.data).toMatchObject({ value: 100, timezone: 'Asia/Kathmandu', group_by: 'day' })
  })

  test.each(['url', 'path', 'event_type', 'properties.plan', 'hour', 'month'])('by %s, compared', async (group_by) => {
    for (const metric of ['visitors', 'event_count_by_type', 'avg_session_duration']) {
      const { status } = await ask('/api/v1/stats', { site_id: siteId, metric, group_by, compare: 'previous_year' })
      expect(status).toBe(200)
    }
  })
})

test('answers say until when they are complete, once a writer has told', async () => {
  const questions: [string, Record<string, string>, unknown?][] = [
    ['/api/v1/stats', { site_id: siteId, metric: 'event_count' }],
    ['/api/v1/funnel', {}, { site_id: siteId, steps: [{ event_type: 'view' }, { event_type: 'signup' }] }],
  ]
  const told = () =>
    Promise.all(
      questions.map(async (question) => {
        const { body } = await ask(...question)
        return (body.data as { complete_until: number }).complete_until
      }),
    )
  expect(await told()).toStrictEqual([0, 0])
  await watermarkStore(query.postgres).advance('log', [now, now + 1])
  const isKnown = async () => (await told()).every((until) => until === now)
  await waitUntil(isKnown, 'both say it', 5_000)
})

test('POST /api/v1/stats/batch counts each of its questions', async () => {
  const queries = [{ site_id: siteId, metric: 'event_count', period: '1h', exact: true }, { site_id: 'nobody' }, {}]
  const { status, headers, body } = await ask('/api/v1/stats/batch', {}, { queries })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({
    results: [{ data: { value: 2 } }, { error: 'Missing required field: metric' }, { success: false }],
  })
  const before = Number(headers.get('x-ratelimit-remaining'))
  const after = await ask('/api/v1/stats/batch', {}, { queries })
  expect(before - Number(after.headers.get('x-ratelimit-remaining'))).toBe(3)
})

test('GET /api/v1/live', async () => {
  const { status, body } = await ask('/api/v1/live', { site_id: siteId })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({
    visitors_5m: 1,
    events_5m: 2,
    last_events: [{ event_type: 'signup', properties: { n: 1, l: [1], e: '' } }, { event_type: 'view' }],
  })
})

test('GET /api/v1/properties', async () => {
  const { status, body } = await ask('/api/v1/properties', { site_id: siteId })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ properties: [{ name: 'event_type', count: 2 }, { name: 'path' }, {}, {}, {}, {}] })
})

test('POST /api/v1/funnel', async () => {
  const steps = [{ event_type: 'view' }, { event_type: 'signup' }]
  const { status, body } = await ask('/api/v1/funnel', {}, { site_id: siteId, steps, period: '1h' })
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ steps: [{ users: 1 }, { users: 1, rate_from_previous: 100 }] })
  expect((await ask('/api/v1/funnel', {}, { site_id: 'nobody', steps })).status).toBe(404)
})
