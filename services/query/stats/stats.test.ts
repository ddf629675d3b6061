import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { waitUntil } from '@sluice/runtime/wait-until'
import { apiRequest } from '../../../tests/support/api-request.ts'
import {
  allSitesKnown,
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
  type StoredEvent,
} from '../../../tests/support/stats-database.ts'
import { statsRoute } from './stats.ts'

let database: StatsDatabase
let queryStats: StatsDatabase['queryStats']
let siteWith: StatsDatabase['siteWith']

beforeAll(async () => {
  database = await openStatsDatabase()
  ;({ queryStats, siteWith } = database)
})

afterAll(async () => {
  await database.drop()
})

describe('the response with status 200', () => {
  test('has value, range and time of receipt, and period, group_by and breakdown only when requested', async () => {
    const siteId = await siteWith([{ at: -0.5 }])
    const { handle } = statsRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
    const query = { site_id: siteId, metric: 'event_count' }
    expect(await handle(apiRequest({ receivedAt: noon, query }))).toStrictEqual({
      status: 200,
      data: {
        metric: 'event_count',
        value: 1,
        site_id: siteId,
        start_date: noon - 24 * hour,
        end_date: noon,
        timezone: 'UTC',
        complete_until: noon,
        timestamp: noon,
      },
    })
    expect(
      await handle(apiRequest({ receivedAt: noon, query: { ...query, period: '1h', group_by: 'day' } })),
    ).toStrictEqual({
      status: 200,
      data: {
        metric: 'event_count',
        value: 1,
        period: '1h',
        site_id: siteId,
        start_date: noon - hour,
        end_date: noon,
        timezone: 'UTC',
        group_by: 'day',
        breakdown: [{ timestamp: noon - 12 * hour, value: 1 }],
        complete_until: noon,
        timestamp: noon,
      },
    })
  })

  test('includes events at the start of the range and not at its end', async () => {
    const siteId = await siteWith([{ at: 0 }, { at: 2 }])
    expect(await queryStats({ site_id: siteId, metric: 'event_count' })).toMatchObject({ value: 1 })
    expect(await queryStats({ site_id: siteId, metric: 'event_count', end_date: noon + 2 * hour + 1 })).toMatchObject({
      value: 2,
    })
    expect(await queryStats({ site_id: siteId, metric: 'event_count', start_date: noon + 1 })).toMatchObject({
      value: 0,
    })
  })

  test.each([
    'event_count',
    'unique_users',
    'unique_sessions',
    'avg_session_duration',
    'bounce_rate',
    'conversion_rate',
  ])('%s of a known site without events is 0, in every bucket', async (metric) => {
    expect(await queryStats({ site_id: randomUUID(), metric })).toMatchObject({ value: 0 })
    expect(await queryStats({ site_id: randomUUID(), metric, group_by: 'hour' })).toMatchObject({
      value: 0,
      breakdown: [
        { timestamp: noon, value: 0 },
        { timestamp: noon + hour, value: 0 },
      ],
    })
    expect(await queryStats({ site_id: randomUUID(), metric, group_by: 'country' })).toMatchObject({
      value: 0,
      breakdown: [],
    })
  })

  test('event_count_by_type of a known site without events is 0, with an empty breakdown', async () => {
    expect(await queryStats({ site_id: randomUUID(), metric: 'event_count_by_type' })).toMatchObject({
      value: 0,
      breakdown: [],
    })
  })
})

describe('group_by hour and day', () => {
  test('fill buckets with zeros and label them by their start, with partial first and last buckets', async () => {
    const siteId = await siteWith([{ at: 0.25 }, { at: 0.75 }, { at: 3.1 }, { at: 3.9 }])
    const parameters = {
      site_id: siteId,
      metric: 'event_count',
      start_date: noon + 0.5 * hour,
      end_date: noon + 3.5 * hour,
    }
    expect(await queryStats({ ...parameters, group_by: 'hour' })).toMatchObject({
      value: 2,
      breakdown: [
        { timestamp: noon, value: 1 },
        { timestamp: noon + hour, value: 0 },
        { timestamp: noon + 2 * hour, value: 0 },
        { timestamp: noon + 3 * hour, value: 1 },
      ],
    })
    expect(await queryStats({ ...parameters, group_by: 'day' })).toMatchObject({
      breakdown: [{ timestamp: noon - 12 * hour, value: 2 }],
    })
  })

  test('have the distinct count of the range as value, not the sum of the buckets', async () => {
    const siteId = await siteWith([
      { at: 0, user_id: 'u', session_id: 's' },
      { at: 1, user_id: 'u', session_id: 's' },
    ])
    for (const metric of ['unique_users', 'unique_sessions']) {
      const { value, breakdown } = await queryStats({ site_id: siteId, metric, group_by: 'hour' })
      expect(value).toBe(1)
      expect(breakdown?.map((entry) => entry.value)).toStrictEqual([1, 1])
    }
  })
})

describe('group_by country and device_type', () => {
  const events: StoredEvent[] = [
    { at: 0, country: 'FR', user_id: 'u1' },
    { at: 0, country: 'DE', user_id: 'u1' },
    { at: 0, country: 'US', user_id: 'u1' },
    { at: 0, country: 'US', user_id: 'u2' },
    { at: 0, user_id: 'u1' },
  ]

  test('are sorted by value and key, with an empty key for an absent value', async () => {
    const siteId = await siteWith(events)
    const { breakdown } = await queryStats({ site_id: siteId, metric: 'event_count', group_by: 'country' })
    expect(breakdown).toStrictEqual([
      { timestamp: noon, key: 'US', country: 'US', value: 2 },
      { timestamp: noon, key: '', country: '', value: 1 },
      { timestamp: noon, key: 'DE', country: 'DE', value: 1 },
      { timestamp: noon, key: 'FR', country: 'FR', value: 1 },
    ])
  })

  test('measure the groups beyond the limit together instead of summing them', async () => {
    const siteId = await siteWith(events)
    const { value, breakdown } = await queryStats({
      site_id: siteId,
      metric: 'unique_users',
      group_by: 'country',
      limit: 1,
    })
    expect(value).toBe(2)
    expect(breakdown).toStrictEqual([
      { timestamp: noon, key: 'US', country: 'US', value: 2 },
      { timestamp: noon, key: '(other)', country: '(other)', value: 1 },
    ])
  })

  test('have no other groups when all fit into the limit', async () => {
    const siteId = await siteWith(events)
    const { breakdown } = await queryStats({ site_id: siteId, metric: 'event_count', group_by: 'country', limit: 4 })
    expect(breakdown?.map(({ key }) => key)).toStrictEqual(['US', '', 'DE', 'FR'])
  })
})

describe('event_count_by_type', () => {
  const events: StoredEvent[] = [
    { at: 0, event_type: 'purchase', device_type: 'desktop' },
    { at: 0, event_type: 'click', device_type: 'desktop' },
    { at: 1, event_type: 'click', device_type: 'mobile' },
    { at: 1, event_type: 'click', device_type: 'mobile' },
    { at: 1, event_type: '(other)', device_type: 'desktop' },
  ]

  test('always has a breakdown by type', async () => {
    const siteId = await siteWith(events)
    expect(await queryStats({ site_id: siteId, metric: 'event_count_by_type' })).toMatchObject({
      value: 5,
      breakdown: [
        { timestamp: noon, key: 'click', event_type: 'click', value: 3 },
        { timestamp: noon, key: '(other)', event_type: '(other)', value: 1 },
        { timestamp: noon, key: 'purchase', event_type: 'purchase', value: 1 },
      ],
    })
  })

  test('is split by bucket or device, without pairs that have no events', async () => {
    const siteId = await siteWith(events)
    const byHour = await queryStats({ site_id: siteId, metric: 'event_count_by_type', group_by: 'hour' })
    expect(byHour.breakdown).toStrictEqual([
      { timestamp: noon, key: 'click', event_type: 'click', value: 1 },
      { timestamp: noon, key: 'purchase', event_type: 'purchase', value: 1 },
      { timestamp: noon + hour, key: 'click', event_type: 'click', value: 2 },
      { timestamp: noon + hour, key: '(other)', event_type: '(other)', value: 1 },
    ])
    const byDevice = await queryStats({
      site_id: siteId,
      metric: 'event_count_by_type',
      group_by: 'device_type',
      limit: 1,
    })
    expect(byDevice.breakdown).toStrictEqual([
      { timestamp: noon, key: 'click', event_type: 'click', device_type: 'mobile', value: 2 },
      { timestamp: noon, key: 'click', event_type: 'click', device_type: 'desktop', value: 1 },
      { timestamp: noon, key: '(other)', event_type: '(other)', device_type: 'desktop', value: 2 },
    ])
  })
})

describe('environment', () => {
  const events: StoredEvent[] = [
    { at: 0, environment: 'prod', session_id: 's' },
    { at: 1, environment: 'dev', session_id: 's' },
    { at: 1, environment: 'dev', session_id: 't' },
  ]
  const { credential } = apiRequest()
  const dev = { credential: { ...credential, environment: 'dev' } } as const

  test('is that of the credential, unless the request names one', async () => {
    const site_id = await siteWith(events)
    const metric = 'event_count'
    expect(await queryStats({ site_id, metric })).toMatchObject({ value: 1 })
    expect(await queryStats({ site_id, metric }, dev)).toMatchObject({ value: 2 })
    expect(await queryStats({ site_id, metric, environment: 'prod' }, dev)).toMatchObject({ value: 1 })
    expect(await queryStats({ site_id, metric, environment: 'all' })).toMatchObject({ value: 3 })
  })

  test('separates sessions by their events', async () => {
    const site_id = await siteWith(events)
    expect(await queryStats({ site_id, metric: 'bounce_rate' })).toMatchObject({ value: 100 })
    expect(await queryStats({ site_id, metric: 'bounce_rate', environment: 'all' })).toMatchObject({ value: 50 })
  })
})

test('parameters with any characters are only ever values', async () => {
  const strange = `') OR 1=1 -- \\ {site_id:String} \u{1F600}`
  const siteId = await siteWith([{ at: 0, session_id: 's', event_type: strange }])
  expect(await queryStats({ site_id: strange, metric: 'event_count' })).toMatchObject({ value: 0 })
  expect(await queryStats({ site_id: siteId, metric: 'conversion_rate', target_event: strange })).toMatchObject({
    value: 100,
  })
  expect(await queryStats({ site_id: siteId, metric: 'event_count_by_type' })).toMatchObject({
    breakdown: [{ key: strange }],
  })
})

describe('a refused request', () => {
  const handle = (isKnown: boolean, query: ApiRequest['query']): Promise<unknown> =>
    statsRoute({
      eventReader: queryReader(database.reader),
      ...allSitesKnown(),
      ...(isKnown ? {} : { sites: { find: () => Promise.resolve(undefined) } }),
    }).handle(apiRequest({ query }))

  test('gets 404 for a site that was never registered', async () => {
    await expect(handle(false, { site_id: 'nobody', metric: 'event_count' })).rejects.toMatchObject({
      code: 'not_found',
      message: 'Site not found',
    })
  })

  test('gets 400 for a pattern that only ClickHouse refuses', async () => {
    // The RE2 of ClickHouse does not know this script of Unicode 17 yet.
    const filter = JSON.stringify([{ property: 'event_type', operator: 'matches', value: '\\p{Sidetic}' }])
    const site_id = await siteWith([{ at: 0, session_id: 's' }])
    for (const metric of ['event_count', 'bounce_rate']) {
      await expect(queryStats({ site_id, metric, filter })).rejects.toMatchObject({
        code: 'invalid_field',
        message: 'Invalid field: filter.0.value is not a regular expression that ClickHouse supports',
      })
    }
  })

  test('gets 404 with the same text for a site that the key is not bound to', async () => {
    const siteId = await siteWith([{ at: 0 }])
    const { credential } = apiRequest()
    const bound = { credential: { ...credential, siteIds: ['another'] } }
    await expect(queryStats({ site_id: siteId, metric: 'event_count' }, bound)).rejects.toMatchObject({
      code: 'not_found',
      message: 'Site not found',
    })
    const own = { credential: { ...credential, siteIds: ['another', siteId] } }
    expect(await queryStats({ site_id: siteId, metric: 'event_count' }, own)).toMatchObject({ value: 1 })
  })

  test('gets 400 for a wrong parameter, also when the site is unknown', async () => {
    await expect(handle(false, { site_id: 'nobody', metric: 'hits' })).rejects.toMatchObject({ code: 'invalid_field' })
  })
})

test('a query is cancelled when its client leaves', async () => {
  const { owner } = database
  const marker = randomUUID()
  const isRunning = async (): Promise<boolean> => {
    const { rows } = await owner.query<{ running: number }>(
      'SELECT count() AS running FROM system.processes WHERE query LIKE {pattern:String} AND query_id != queryID()',
      { pattern: `%-- ${marker}%` },
    )
    return rows[0]?.running === 1
  }
  // The statement is replaced by 29 s of sleep of a user without limits: only the handler's own settings apply.
  const slow: Pick<ClickHouse, 'query'> = {
    query: (_sql, _params, options) =>
      owner.query(
        `SELECT sum(sleepEachRow(0.1)) AS value FROM numbers(290) SETTINGS max_block_size = 1 -- ${marker}`,
        {},
        options,
      ),
  }
  const client = new AbortController()
  const { handle } = statsRoute({ eventReader: queryReader(slow), ...allSitesKnown() })
  const response = handle(apiRequest({ query: { site_id: 'any', metric: 'event_count' }, signal: client.signal }))
  const failure = expect(response).rejects.toThrow()
  await waitUntil(isRunning, 'the statement runs')
  client.abort()
  await failure
  await waitUntil(async () => !(await isRunning()), 'the statement has ended')
})
