import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/clickhouse/client'
import { apiRequest } from '../../../tests/api-request.ts'
import {
  type AskedStats,
  everySite,
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
} from '../../../tests/stats-database.ts'
import { statsHandler } from './handler.ts'

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

async function ask(asked: Partial<AskedStats>, settings: Settings): Promise<unknown> {
  const clickHouse: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) =>
      database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...settings } }),
  }
  const handle = statsHandler({ clickHouse, ...everySite() })
  const dated = { site_id: siteId, start_date: noon - 24 * hour, end_date: noon + 24 * hour, ...asked }
  const query = Object.fromEntries(Object.entries(dated).map(([name, value]) => [name, String(value)]))
  return (await handle(apiRequest({ receivedAt: noon, query }))).data
}

const withProjection = { force_optimize_projection_name: 'counts' }
const withoutProjections = { optimize_use_projections: 0 }

describe('the projection of counts answers', () => {
  const groupings = ['', 'hour', 'day', 'week', 'month', 'country', 'device_type', 'event_type']
  const others: Partial<AskedStats>[] = [
    {},
    { timezone: 'Asia/Kathmandu' },
    { start_date: noon - 24 * hour + 1, end_date: noon + 23 * hour + 12_345 },
    { country: 'DE', device_type: 'desktop' },
    { event_type: 'click', environment: 'all' },
    { environment: 'dev', compare: 'previous_period' },
  ]
  test.each(['event_count', 'event_count_by_type'])(
    '%s, as the events themselves do',
    async (metric) => {
      for (const group_by of groupings) {
        for (const other of others) {
          const asked = { metric, ...(group_by === '' ? {} : { group_by }), ...other }
          const answer = await ask(asked, withProjection)
          expect({ asked, answer }).toStrictEqual({ asked, answer: await ask(asked, withoutProjections) })
        }
      }
    },
    60_000,
  )
})

describe('events themselves answer', () => {
  test.each<Partial<AskedStats>>([
    { group_by: 'path' },
    { group_by: 'properties.plan' },
    { filter: JSON.stringify([{ property: 'country', operator: 'equals', value: 'DE' }]) },
    { metric: 'unique_users' },
    { start_date: noon + 1, end_date: noon + 800_000 },
  ])('%j', async (asked) => {
    await expect(ask({ metric: 'event_count', ...asked }, withProjection)).rejects.toMatchObject({
      internal: expect.stringContaining('counts') as unknown,
    })
  })
})
