import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type ClickHouse, openClickHouse, parseClickHouseUrl } from '@sluice/clickhouse/client'
import { type EventInserter, eventInserter } from '@sluice/clickhouse/insert-events'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { type TestClickHouse, testClickHouse } from '@sluice/engines/testing'
import fc from 'fast-check'
import { randomInt, randomUUID } from 'node:crypto'
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
      { arbitrary: fc.constantFrom(-24, -1, 0, 1, 23, 24, 25, 48), weight: 4 },
      { arbitrary: fc.integer({ min: -72, max: 96 }), weight: 1 },
    ),
    fc.oneof(
      { arbitrary: fc.constantFrom(0, 0, 0, 0, -1, 1), weight: 4 },
      { arbitrary: fc.integer({ min: 0, max: hour - 1 }), weight: 1 },
    ),
  )
  .map(([hours, ms]) => origin + hours * hour + ms)

const ids = (prefix: string): fc.Arbitrary<string> => fc.constantFrom('', `${prefix}1`, `${prefix}2`, `${prefix}3`)

type DrawnEvent = Omit<RawEvent, 'event_id'> & {
  /** Its event_id begins with it: ids are unlike each other, but their order is unlike that of the list. */
  rank: number
  /** How often it is sent. */
  copies: number
  /** The country of another event of the same moment, session and user. */
  twin?: string
}

const country = fc.constantFrom('', 'DE', 'FR', 'US', '4X')

const drawnEvent: fc.Arbitrary<DrawnEvent> = fc.record(
  {
    site_id: fc.constantFrom('a', 'a', 'a', 'b'),
    environment: fc.constantFrom('prod', 'prod', 'dev'),
    event_type: fc.constantFrom('page_view', 'page_view', 'click', 'purchase', 'sign-up', '(other)', 'é'),
    timestamp: moment,
    rank: fc.nat(99),
    session_id: ids('s'),
    user_id: ids('u'),
    country,
    device_type: fc.constantFrom('desktop', 'mobile', 'tablet'),
    copies: fc.constantFrom(1, 1, 1, 2),
    twin: country,
  },
  { requiredKeys: ['site_id', 'environment', 'event_type', 'timestamp', 'rank', 'copies'] },
)

const grouping = fc.constantFrom<Partial<RawQuestion>>(
  {},
  { group_by: 'hour' },
  { group_by: 'day' },
  { group_by: 'device_type' },
  { group_by: 'country' },
  { group_by: 'country', limit: 1 },
  { group_by: 'device_type', limit: 2 },
)

const filters = fc.oneof(
  { arbitrary: fc.constant({}), weight: 3 },
  { arbitrary: fc.record({ country: fc.constantFrom('DE', 'FR', '4X', 'ZZ') }), weight: 1 },
  { arbitrary: fc.record({ device_type: fc.constantFrom('desktop', 'mobile') }), weight: 1 },
  { arbitrary: fc.record({ country: fc.constantFrom('DE', 'FR'), device_type: fc.constant('desktop') }), weight: 1 },
)

const question: fc.Arbitrary<RawQuestion> = fc
  .tuple(
    fc.record({
      site_id: fc.constantFrom('a', 'a', 'a', 'b'),
      // The session metrics, which have the most rules, twice as often.
      metric: fc.constantFrom(...metrics, 'avg_session_duration', 'bounce_rate', 'conversion_rate'),
      environment: fc.constantFrom('prod', 'prod', 'dev', 'all'),
    }),
    fc.tuple(moment, moment).filter(([a, b]) => a !== b),
    grouping,
    filters,
    fc.constantFrom<Partial<RawQuestion>>({}, { limit: 2 }, { target_event: 'sign-up' }, { target_event: 'é' }),
  )
  .map(([asked, edges, ...more]) => ({
    start_date: Math.min(...edges),
    end_date: Math.max(...edges),
    ...asked,
    ...(Object.assign({}, ...more) as Partial<RawQuestion>),
  }))

interface Trial {
  events: DrawnEvent[]
  questions: RawQuestion[]
}

const trial: fc.Arbitrary<Trial> = fc.record({
  events: fc.array(drawnEvent, { minLength: 10, maxLength: 30, size: 'max' }),
  questions: fc.array(question, { minLength: 6, maxLength: 6 }),
})

const trialCount = 200

test('every metric, grouping, filter and range of random events is what the oracle says', async () => {
  const seed = randomInt(2 ** 31)
  // All are stored at once, which takes a fraction of the time; only one that fails is played again, and made smaller.
  const trials = fc.sample(trial, { numRuns: trialCount, seed }).map(underOwnSites)
  await store(trials.flatMap(({ events }) => events))
  for (const [index, drawn] of trials.entries()) {
    try {
      await check(drawn)
    } catch (error) {
      const replayed = fc.asyncProperty(trial, async (smaller) => {
        const own = underOwnSites(smaller)
        await store(own.events)
        await check(own)
      })
      await fc.assert(replayed, { seed, path: String(index), numRuns: 1, interruptAfterTimeLimit: 15_000 })
      throw error
    }
  }
}, 90_000)

/** Gives a trial's sites names that no other has, so that all can share one table, and its events ids, copies and twins. */
function underOwnSites({ events, questions }: Trial): { events: RawEvent[]; questions: RawQuestion[] } {
  const suffix = randomUUID()
  return {
    events: events.flatMap(({ rank, copies, twin, ...drawn }, index) => {
      const event: RawEvent = { ...drawn, site_id: `${drawn.site_id}-${suffix}`, event_id: `${rank}-${index}` }
      const twins = twin === undefined ? [] : [{ ...event, country: twin, event_id: `${99 - rank}-${index}-twin` }]
      return [...Array<RawEvent>(copies).fill(event), ...twins]
    }),
    questions: questions.map((asked) => ({ ...asked, site_id: `${asked.site_id}-${suffix}` })),
  }
}

async function store(events: readonly RawEvent[]): Promise<void> {
  const lines = events.map((event) => JSON.stringify({ ...event, received_at: event.timestamp }))
  const batch = { payloads: [Buffer.from(lines.join('\n'))], undated: false }
  await inserter.insert(batch, { queryId: randomUUID(), replaceRunning: false, timeoutMs: 20_000 })
}

async function check({ events, questions }: { events: RawEvent[]; questions: RawQuestion[] }): Promise<void> {
  const answers = await Promise.all(questions.map(async (asked) => ({ asked, answer: await ask(asked) })))
  expect(answers).toStrictEqual(questions.map((asked) => ({ asked, answer: expectedData(events, asked) })))
}

/** Few rows are counted sooner by one thread. */
const frugal: Pick<ClickHouse, 'query'> = {
  query: (sql, params, options) =>
    clickHouse.query(sql, params, { ...options, settings: { ...options?.settings, max_threads: 1 } }),
}

async function ask(asked: RawQuestion): Promise<unknown> {
  const query = Object.fromEntries(Object.entries(asked).map(([name, value]) => [name, String(value)]))
  const handle = statsHandler({ clickHouse: frugal, sites: { isKnown: () => Promise.resolve(true) } })
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
