import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { metrics } from '@sluice/contracts/stats'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { type ClickHouse, openClickHouse } from '../clickhouse/client.ts'
import { planStats } from './spec.ts'
import { groupsStatement, rangeStatement, typesStatement } from './statements.ts'

const noon = Date.UTC(2024, 4, 15, 12)
const hour = 3_600_000

let database: TestClickHouse
let clickHouse: ClickHouse

beforeAll(async () => {
  database = testClickHouse()
  await database.create()
  clickHouse = openClickHouse(database.url)
  // Three sites, an event every 6 s each, over a week: enough granules to leave most of them out.
  await clickHouse.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
     SELECT concat('site-', toString(number % 3)), 'prod', 'page_view', time, toString(number), time
     FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64} + intDiv(number, 3) * 6000, 'UTC') AS time FROM numbers(300000))`,
    { params: { noon } },
  )
})

afterAll(async () => {
  await clickHouse.close()
  await database.drop()
})

test.each(metrics)(
  '%s reads only the granules that the primary key selects for the site and the range',
  async (metric) => {
    const plan = planStats({
      siteId: 'site-1',
      environment: 'prod',
      metric,
      groupBy: 'country',
      start: noon + 84 * hour,
      end: noon + 85 * hour,
    })
    const statements =
      metric === 'event_count_by_type' ? [typesStatement(plan)] : [groupsStatement(plan), rangeStatement(plan)]
    for (const { sql, params } of statements) {
      const { rows } = await clickHouse.query<{ explain: string }>(`EXPLAIN indexes = 1 ${sql}`, params)
      const explanation = rows.map(({ explain }) => explain).join('\n')
      const reads = explanation.split('ReadFromMergeTree').slice(1)
      expect(reads.length).toBeGreaterThan(0)
      for (const read of reads) {
        const [, chosen = '', all = ''] = /PrimaryKey[\s\S]*?Granules: (\d+)\/(\d+)/.exec(read) ?? []
        // Counts are read from their projection, which has one or two granules for all of these events.
        if (metric.startsWith('event_count')) expect(read).toMatch(/^ \(counts\)/)
        else expect(Number(all)).toBeGreaterThan(30)
        // The hour has 600 events; with the 24 hours on both sides, which may hold parts of sessions, it has 29,400.
        const isOfSessions = ['avg_session_duration', 'bounce_rate', 'conversion_rate'].includes(metric)
        expect(Number(chosen)).toBeLessThanOrEqual(isOfSessions ? 5 : 2)
      }
    }
  },
)
