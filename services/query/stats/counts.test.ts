import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { apiRequest } from '../../../tests/support/api-request.ts'
import {
  allSitesKnown,
  hour,
  noon,
  openStatsDatabase,
  type RawStatsParameters,
  type StatsDatabase,
} from '../../../tests/support/stats-database.ts'
import { statsRoute } from './stats.ts'

let database: StatsDatabase
let siteId: string

const types = ['page_view', 'click', 'purchase']
const countries = ['DE', 'FR', 'US', '']

beforeAll(async () => {
  database = await openStatsDatabase()
  siteId = await database.siteWith(
    Array.from({ length: 5_000 }, (_, n) => ({
      at: ((n * 7_919) % 720) / 10 - 36 + n / hour,
      event_type: types[n % 3] ?? '',
      country: countries[n % 4] ?? '',
      device_type: n % 5 === 0 ? 'mobile' : 'desktop',
      environment: n % 11 === 0 ? ('dev' as const) : ('prod' as const),
    })),
  )
})

afterAll(async () => {
  await database.drop()
})

type Settings = Readonly<Record<string, string | number>>

async function requestCounts(parameters: Partial<RawStatsParameters>, settings: Settings): Promise<unknown> {
  const clickHouse: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) =>
      database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...settings } }),
  }
  const { handle } = statsRoute({ eventReader: queryReader(clickHouse), ...allSitesKnown() })
  const dated = { site_id: siteId, start_date: noon - 24 * hour, end_date: noon + 24 * hour, ...parameters }
  const query = Object.fromEntries(Object.entries(dated).map(([name, value]) => [name, String(value)]))
  return (await handle(apiRequest({ receivedAt: noon, query }))).data
}

const withProjection = { force_optimize_projection_name: 'counts' }
const withoutProjections = { optimize_use_projections: 0 }

describe('the projection of counts is used for', () => {
  const groupings = ['', 'hour', 'day', 'week', 'month', 'country', 'device_type', 'event_type']
  const others: Partial<RawStatsParameters>[] = [
    {},
    { timezone: 'Asia/Kathmandu' },
    { start_date: noon - 24 * hour + 1, end_date: noon + 23 * hour + 12_345 },
    { country: 'DE', device_type: 'desktop' },
    { event_type: 'click', environment: 'all' },
    { environment: 'dev', compare: 'previous_period' },
  ]
  test.each(['event_count', 'event_count_by_type'])(
    '%s, with the same numbers as the events themselves',
    async (metric) => {
      for (const group_by of groupings) {
        for (const other of others) {
          const parameters = { metric, ...(group_by === '' ? {} : { group_by }), ...other }
          const result = await requestCounts(parameters, withProjection)
          expect({ parameters, result }).toStrictEqual({
            parameters,
            result: await requestCounts(parameters, withoutProjections),
          })
        }
      }
    },
  )
})

describe('the events themselves are used for', () => {
  test.each<Partial<RawStatsParameters>>([
    { group_by: 'path' },
    { group_by: 'properties.plan' },
    { filter: JSON.stringify([{ property: 'country', operator: 'equals', value: 'DE' }]) },
    { metric: 'unique_users' },
    { start_date: noon + 1, end_date: noon + 800_000 },
  ])('%j', async (parameters) => {
    await expect(requestCounts({ metric: 'event_count', ...parameters }, withProjection)).rejects.toMatchObject({
      internal: expect.stringContaining('counts') as unknown,
    })
  })
})

describe('an event in the last second before the first whole quarter of an hour of the range', () => {
  // The only event of its part, whose index then begins in that second.
  const alone = async (metric: string, more: Partial<RawStatsParameters> = {}) => {
    const site_id = await database.siteWith([{ at: -1 / hour, user_id: 'u1', session_id: 's1' }])
    return requestCounts({ site_id, metric, start_date: noon - 60_000, ...more }, {})
  }

  test.each(['event_count', 'unique_users', 'unique_sessions', 'visitors'])('counts in %s', async (metric) => {
    expect(await alone(metric)).toMatchObject({ value: 1 })
    expect(await alone(metric, { group_by: 'day' })).toMatchObject({ value: 1 })
    expect(await alone(metric, { environment: 'all' })).toMatchObject({ value: 1 })
  })
})
