import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/clickhouse/client'
import type { ApiRequest } from '@sluice/http/route'
import { randomUUID } from 'node:crypto'
import { apiRequest } from '../../../tests/api-request.ts'
import {
  everySite,
  hour,
  noon,
  openStatsDatabase,
  type SentEvent,
  type StatsDatabase,
} from '../../../tests/stats-database.ts'
import { statsHandler } from './handler.ts'

let database: StatsDatabase
let ask: StatsDatabase['ask']
let siteWith: StatsDatabase['siteWith']

beforeAll(async () => {
  database = await openStatsDatabase()
  ;({ ask, siteWith } = database)
})

afterAll(async () => {
  await database.drop()
})

describe('200: what the answer holds', () => {
  test('value, range and the moment of the answer; period, group_by and breakdown only when asked', async () => {
    const siteId = await siteWith([{ at: -0.5 }])
    const handle = statsHandler({ clickHouse: database.reader, ...everySite() })
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

  test('a range holds its start and not its end', async () => {
    const siteId = await siteWith([{ at: 0 }, { at: 2 }])
    expect(await ask({ site_id: siteId, metric: 'event_count' })).toMatchObject({ value: 1 })
    expect(await ask({ site_id: siteId, metric: 'event_count', end_date: noon + 2 * hour + 1 })).toMatchObject({
      value: 2,
    })
    expect(await ask({ site_id: siteId, metric: 'event_count', start_date: noon + 1 })).toMatchObject({ value: 0 })
  })

  test.each([
    'event_count',
    'unique_users',
    'unique_sessions',
    'avg_session_duration',
    'bounce_rate',
    'conversion_rate',
  ])('%s of a known site without events is 0, in every bucket', async (metric) => {
    expect(await ask({ site_id: randomUUID(), metric })).toMatchObject({ value: 0 })
    expect(await ask({ site_id: randomUUID(), metric, group_by: 'hour' })).toMatchObject({
      value: 0,
      breakdown: [
        { timestamp: noon, value: 0 },
        { timestamp: noon + hour, value: 0 },
      ],
    })
    expect(await ask({ site_id: randomUUID(), metric, group_by: 'country' })).toMatchObject({ value: 0, breakdown: [] })
  })

  test('event_count_by_type of a known site without events is 0 and empty', async () => {
    expect(await ask({ site_id: randomUUID(), metric: 'event_count_by_type' })).toMatchObject({
      value: 0,
      breakdown: [],
    })
  })
})

describe('group_by hour and day', () => {
  test('buckets are zero-filled, labelled by their start, the first and the last may hold a part only', async () => {
    const siteId = await siteWith([{ at: 0.25 }, { at: 0.75 }, { at: 3.1 }, { at: 3.9 }])
    const asked = { site_id: siteId, metric: 'event_count', start_date: noon + 0.5 * hour, end_date: noon + 3.5 * hour }
    expect(await ask({ ...asked, group_by: 'hour' })).toMatchObject({
      value: 2,
      breakdown: [
        { timestamp: noon, value: 1 },
        { timestamp: noon + hour, value: 0 },
        { timestamp: noon + 2 * hour, value: 0 },
        { timestamp: noon + 3 * hour, value: 1 },
      ],
    })
    expect(await ask({ ...asked, group_by: 'day' })).toMatchObject({
      breakdown: [{ timestamp: noon - 12 * hour, value: 2 }],
    })
  })

  test('the value of distinct counts is that of the range, not the sum of the buckets', async () => {
    const siteId = await siteWith([
      { at: 0, user_id: 'u', session_id: 's' },
      { at: 1, user_id: 'u', session_id: 's' },
    ])
    for (const metric of ['unique_users', 'unique_sessions']) {
      const { value, breakdown } = await ask({ site_id: siteId, metric, group_by: 'hour' })
      expect(value).toBe(1)
      expect(breakdown?.map((entry) => entry.value)).toStrictEqual([1, 1])
    }
  })
})

describe('group_by country and device_type', () => {
  const events: SentEvent[] = [
    { at: 0, country: 'FR', user_id: 'u1' },
    { at: 0, country: 'DE', user_id: 'u1' },
    { at: 0, country: 'US', user_id: 'u1' },
    { at: 0, country: 'US', user_id: 'u2' },
    { at: 0, user_id: 'u1' },
  ]

  test('are sorted by value, then key; an absent value has an empty key', async () => {
    const siteId = await siteWith(events)
    const { breakdown } = await ask({ site_id: siteId, metric: 'event_count', group_by: 'country' })
    expect(breakdown).toStrictEqual([
      { timestamp: noon, key: 'US', country: 'US', value: 2 },
      { timestamp: noon, key: '', country: '', value: 1 },
      { timestamp: noon, key: 'DE', country: 'DE', value: 1 },
      { timestamp: noon, key: 'FR', country: 'FR', value: 1 },
    ])
  })

  test('beyond the limit, the rest is measured, not summed', async () => {
    const siteId = await siteWith(events)
    const { value, breakdown } = await ask({ site_id: siteId, metric: 'unique_users', group_by: 'country', limit: 1 })
    expect(value).toBe(2)
    expect(breakdown).toStrictEqual([
      { timestamp: noon, key: 'US', country: 'US', value: 2 },
      { timestamp: noon, key: '(other)', country: '(other)', value: 1 },
    ])
  })

  test('a limit that all groups fit in leaves no rest', async () => {
    const siteId = await siteWith(events)
    const { breakdown } = await ask({ site_id: siteId, metric: 'event_count', group_by: 'country', limit: 4 })
    expect(breakdown?.map(({ key }) => key)).toStrictEqual(['US', '', 'DE', 'FR'])
  })
})

describe('event_count_by_type', () => {
  const events: SentEvent[] = [
    { at: 0, event_type: 'purchase', device_type: 'desktop' },
    { at: 0, event_type: 'click', device_type: 'desktop' },
    { at: 1, event_type: 'click', device_type: 'mobile' },
    { at: 1, event_type: 'click', device_type: 'mobile' },
    { at: 1, event_type: '(other)', device_type: 'desktop' },
  ]

  test('always has a breakdown by type', async () => {
    const siteId = await siteWith(events)
    expect(await ask({ site_id: siteId, metric: 'event_count_by_type' })).toMatchObject({
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
    const byHour = await ask({ site_id: siteId, metric: 'event_count_by_type', group_by: 'hour' })
    expect(byHour.breakdown).toStrictEqual([
      { timestamp: noon, key: 'click', event_type: 'click', value: 1 },
      { timestamp: noon, key: 'purchase', event_type: 'purchase', value: 1 },
      { timestamp: noon + hour, key: 'click', event_type: 'click', value: 2 },
      { timestamp: noon + hour, key: '(other)', event_type: '(other)', value: 1 },
    ])
    const byDevice = await ask({ site_id: siteId, metric: 'event_count_by_type', group_by: 'device_type', limit: 1 })
    expect(byDevice.breakdown).toStrictEqual([
      { timestamp: noon, key: 'click', event_type: 'click', device_type: 'mobile', value: 2 },
      { timestamp: noon, key: 'click', event_type: 'click', device_type: 'desktop', value: 1 },
      { timestamp: noon, key: '(other)', event_type: '(other)', device_type: 'desktop', value: 2 },
    ])
  })
})

describe('environment', () => {
  const events: SentEvent[] = [
    { at: 0, environment: 'prod', session_id: 's' },
    { at: 1, environment: 'dev', session_id: 's' },
    { at: 1, environment: 'dev', session_id: 't' },
  ]
  const { credential } = apiRequest()
  const dev = { credential: { ...credential, environment: 'dev' } } as const

  test('is that of the credential, unless the request names one', async () => {
    const site_id = await siteWith(events)
    const metric = 'event_count'
    expect(await ask({ site_id, metric })).toMatchObject({ value: 1 })
    expect(await ask({ site_id, metric }, dev)).toMatchObject({ value: 2 })
    expect(await ask({ site_id, metric, environment: 'prod' }, dev)).toMatchObject({ value: 1 })
    expect(await ask({ site_id, metric, environment: 'all' })).toMatchObject({ value: 3 })
  })

  test('cuts sessions: each sees only its own events', async () => {
    const site_id = await siteWith(events)
    expect(await ask({ site_id, metric: 'bounce_rate' })).toMatchObject({ value: 100 })
    expect(await ask({ site_id, metric: 'bounce_rate', environment: 'all' })).toMatchObject({ value: 50 })
  })
})

test('values of parameters stay values, whatever is in them', async () => {
  const strange = `') OR 1=1 -- \\ {site_id:String} \u{1F600}`
  const siteId = await siteWith([{ at: 0, session_id: 's', event_type: strange }])
  expect(await ask({ site_id: strange, metric: 'event_count' })).toMatchObject({ value: 0 })
  expect(await ask({ site_id: siteId, metric: 'conversion_rate', target_event: strange })).toMatchObject({ value: 100 })
  expect(await ask({ site_id: siteId, metric: 'event_count_by_type' })).toMatchObject({ breakdown: [{ key: strange }] })
})

describe('400 and 404', () => {
  const handle = (isKnown: boolean, query: ApiRequest['query']): Promise<unknown> =>
    statsHandler({
      clickHouse: database.reader,
      ...everySite(),
      ...(isKnown ? {} : { sites: { find: () => Promise.resolve(undefined) } }),
    })(apiRequest({ query }))

  test('404 for a site that nobody registered', async () => {
    await expect(handle(false, { site_id: 'nobody', metric: 'event_count' })).rejects.toMatchObject({
      status: 404,
      message: 'Site not found',
    })
  })

  test('400 for a pattern that ClickHouse alone refuses', async () => {
    // A script of Unicode 17, which its RE2 does not know yet.
    const filter = JSON.stringify([{ property: 'event_type', operator: 'matches', value: '\\p{Sidetic}' }])
    const site_id = await siteWith([{ at: 0, session_id: 's' }])
    for (const metric of ['event_count', 'bounce_rate']) {
      await expect(ask({ site_id, metric, filter })).rejects.toMatchObject({
        status: 400,
        message: 'Invalid field: filter.0.value is no regular expression that ClickHouse takes',
      })
    }
  })

  test('404 for a site that the key is not bound to, in the same words', async () => {
    const siteId = await siteWith([{ at: 0 }])
    const { credential } = apiRequest()
    const bound = { credential: { ...credential, siteIds: ['another'] } }
    await expect(ask({ site_id: siteId, metric: 'event_count' }, bound)).rejects.toMatchObject({
      status: 404,
      message: 'Site not found',
    })
    const own = { credential: { ...credential, siteIds: ['another', siteId] } }
    expect(await ask({ site_id: siteId, metric: 'event_count' }, own)).toMatchObject({ value: 1 })
  })

  test('400 for a wrong parameter, also when the site is unknown', async () => {
    await expect(handle(false, { site_id: 'nobody', metric: 'hits' })).rejects.toMatchObject({ status: 400 })
  })
})

test('a query whose client leaves is cancelled', async () => {
  const { owner } = database
  const marker = randomUUID()
  const isRunning = async (): Promise<boolean> => {
    const { rows } = await owner.query<{ running: number }>(
      'SELECT count() AS running FROM system.processes WHERE query LIKE {pattern:String} AND query_id != queryID()',
      { pattern: `%-- ${marker}%` },
    )
    return rows[0]?.running === 1
  }
  // 29 s of sleep in place of the statement, as a user without limits: only the handler's own settings count.
  const slow: Pick<ClickHouse, 'query'> = {
    query: (_sql, _params, options) =>
      owner.query(
        `SELECT sum(sleepEachRow(0.1)) AS value FROM numbers(290) SETTINGS max_block_size = 1 -- ${marker}`,
        {},
        options,
      ),
  }
  const client = new AbortController()
  const handle = statsHandler({ clickHouse: slow, ...everySite() })
  const answer = handle(apiRequest({ query: { site_id: 'any', metric: 'event_count' }, signal: client.signal }))
  const failure = expect(answer).rejects.toThrow()
  await until(isRunning)
  client.abort()
  await failure
  await until(async () => !(await isRunning()))
})

/** Asks until the condition holds; throws after 5 s. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 5_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('the condition did not come true within 5 s')
  }
}
