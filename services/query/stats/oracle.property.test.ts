import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from '@sluice/clickhouse/client'
import { type EventInserter, eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { type TestClickHouse, testClickHouse } from '@sluice/engines/testing'
import fc from 'fast-check'
import { apiRequest } from '../../../tests/api-request.ts'
import { expectedStats, type RawEvent, type RawQuestion } from '../../../tests/oracle/expected-stats.ts'
import { statsHandler } from './handler.ts'
import { metrics } from './parameters.ts'

const hour = 3_600_000
/** A full hour, not a full day, next to the end of a month: partitions change at the one, buckets at the other. */
const origin = Date.UTC(2024, 1, 29, 21)

let database: TestClickHouse
let clickHouse: ClickHouse
let inserter: EventInserter

beforeAll(async () => {
  database = testClickHouse()
  await migrateClickHouse(database.url)
  clickHouse = openClickHouse(database.readerUrl)
  inserter = eventInserter(parseClickHouseUrl(database.url))
})

afterAll(async () => {
  inserter.close()
  await clickHouse.close()
  await database.drop()
})

/**
 * Moments at few places, so that events tie, meet the edges of ranges and buckets to the millisecond, and lie exactly a
 * session's 24 h apart or just not.
 */
const moment = fc
  .tuple(
    fc.oneof(
      fc.constantFrom(-48, -25, -24, -23, -1, 0, 1, 2, 23, 24, 25, 47, 48, 72),
      fc.integer({ min: -72, max: 96 }),
    ),
    fc.oneof(fc.constantFrom(0, 0, 0, -1, 1), fc.integer({ min: 0, max: hour - 1 })),
  )
  .map(([hours, ms]) => origin + hours * hour + ms)

const ids = (prefix: string): fc.Arbitrary<string> =>
  fc.constantFrom('', `${prefix}1`, `${prefix}1`, `${prefix}2`, `${prefix}3`)

const sites = ['a', 'b'] as const

type DrawnEvent = Omit<RawEvent, 'event_id'> & { rank: number; copies: number }

const drawnEvent: fc.Arbitrary<DrawnEvent> = fc.record(
  {
    site_id: fc.constantFrom('a', 'a', 'a', 'b'),
    environment: fc.constantFrom('prod', 'prod', 'dev'),
    event_type: fc.constantFrom('page_view', 'page_view', 'click', 'purchase', 'sign-up', '(other)', 'é'),
    timestamp: moment,
    // Ids are unlike each other, and their order is unlike that of the list.
    rank: fc.nat(99),
    session_id: ids('s'),
    user_id: ids('u'),
    country: fc.constantFrom('', 'DE', 'FR', 'US', '4X'),
    device_type: fc.constantFrom('desktop', 'mobile', 'tablet'),
    copies: fc.constantFrom(1, 1, 1, 2),
  },
  { requiredKeys: ['site_id', 'environment', 'event_type', 'timestamp', 'rank', 'copies'] },
)

const question: fc.Arbitrary<RawQuestion> = fc
  .record(
    {
      site_id: fc.constantFrom(...sites),
      metric: fc.constantFrom(...metrics),
      edges: fc.tuple(moment, moment).filter(([a, b]) => a !== b),
      environment: fc.constantFrom('prod', 'prod', 'dev', 'all'),
      group_by: fc.constantFrom('hour', 'day', 'device_type', 'country'),
      country: fc.constantFrom('DE', 'FR', '4X', 'ZZ'),
      device_type: fc.constantFrom('desktop', 'mobile'),
      target_event: fc.constantFrom('sign-up', 'é', 'never'),
      limit: fc.constantFrom(1, 2, 3),
    },
    { requiredKeys: ['site_id', 'metric', 'edges', 'environment'] },
  )
  .map(({ edges, ...rest }) => ({ ...rest, start_date: Math.min(...edges), end_date: Math.max(...edges) }))

const trial = fc.record({
  events: fc.array(drawnEvent, { minLength: 1, maxLength: 30, size: 'max' }),
  questions: fc.array(question, { minLength: 5, maxLength: 5 }),
})

const trialsPerInsert = 20

let insertCount = 0

test('every metric, grouping, filter and range of random events is what the oracle says', async () => {
  let trialCount = 0
  await fc.assert(
    fc.asyncProperty(fc.array(trial, { minLength: trialsPerInsert, maxLength: trialsPerInsert }), async (trials) => {
      insertCount += 1
      trialCount += trials.length
      const stored = trials.map(({ events, questions }, index) => {
        // A site of its own for each trial, so that all share one table.
        const site = (name: string): string => `${name}-${insertCount}-${index}`
        return {
          questions: questions.map((asked) => ({ ...asked, site_id: site(asked.site_id) })),
          events: events.flatMap(({ rank, copies, ...event }, number) =>
            Array<RawEvent>(copies).fill({ ...event, site_id: site(event.site_id), event_id: `${rank}-${number}` }),
          ),
        }
      })
      await store(stored.flatMap(({ events }) => events))
      await Promise.all(
        stored.flatMap(({ events, questions }) =>
          questions.map(async (asked) => {
            expect(await ask(asked)).toStrictEqual(expectedData(events, asked))
          }),
        ),
      )
    }),
    { numRuns: 12, interruptAfterTimeLimit: 50_000 },
  )
  expect(trialCount).toBeGreaterThanOrEqual(200)
}, 60_000)

async function store(events: readonly RawEvent[]): Promise<void> {
  const lines = events.map((event) => JSON.stringify({ ...event, received_at: event.timestamp }))
  const batch = { payloads: [Buffer.from(lines.join('\n'))], undated: false }
  await inserter.insert(batch, { queryId: `${database.url}-${insertCount}`, replaceRunning: false, timeoutMs: 10_000 })
}

async function ask(asked: RawQuestion): Promise<unknown> {
  const query = Object.fromEntries(Object.entries(asked).map(([name, value]) => [name, String(value)]))
  const handle = statsHandler({ clickHouse, sites: { isKnown: () => Promise.resolve(true) } })
  const { data } = await handle(apiRequest({ query, receivedAt: origin }))
  return data
}

function expectedData(events: readonly RawEvent[], asked: RawQuestion): unknown {
  const { metric, site_id, start_date, end_date, group_by } = asked
  return {
    metric,
    site_id,
    start_date,
    end_date,
    timezone: 'UTC',
    ...(group_by === undefined ? {} : { group_by }),
    ...expectedStats(events, asked),
    timestamp: origin,
  }
}
