import { randomInt, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { groupFields, metrics, statsLimits, timeUnits } from '@sluice/contracts/stats'
import { type ClickHouse, openClickHouseAt, parseClickHouseUrl } from '@sluice/event-store/clickhouse/client'
import { openEventInserterAt } from '@sluice/event-store/insert/event-inserter'
import { statsRoute } from '@sluice/query/stats/stats'
import { apiRequest } from '../api-request.ts'
import { withProfile } from '../clickhouse-profile.ts'
import { hostileProfile } from '../hostile-profile.ts'
import { patientReader } from '../patient-reader.ts'
import { allSitesKnown, noon } from '../stats-database.ts'
import type { TestStore } from '../test-store.ts'
import { expectedStats, type RawEvent, type RawStatsQuery } from './expected-stats.ts'
import type { RawCondition } from './matches-condition.ts'

const hour = 3_600_000

/** Events and ranges lie around these moments, mostly in these zones: next to changes of clocks, days and months. */
const places: readonly (readonly [zone: string, origin: number])[] = [
  // A full hour, where buckets begin, near the end of a month, where partitions change.
  ['UTC', Date.UTC(2024, 1, 29, 21)],
  ['UTC', Date.UTC(2024, 1, 29, 21)],
  ['Europe/Berlin', Date.UTC(2024, 2, 31, 1)],
  ['Europe/Berlin', Date.UTC(2024, 9, 27, 1)],
  ['America/New_York', Date.UTC(2024, 10, 3, 6)],
  ['Australia/Lord_Howe', Date.UTC(2024, 3, 6, 15)],
  ['Asia/Kolkata', Date.UTC(2023, 11, 31, 18, 30)],
  ['Asia/Kathmandu', Date.UTC(2023, 11, 31, 18, 15)],
  ['America/Sao_Paulo', Date.UTC(2018, 10, 4, 3)],
  ['Africa/Cairo', Date.UTC(2024, 3, 25, 22)],
  ['America/St_Johns', Date.UTC(2006, 9, 29, 2, 31)],
  ['Pacific/Apia', Date.UTC(2011, 11, 30, 10)],
]

const day = 24 * hour

let store: TestStore

/**
 * Moments at few distances from the origin, so that events often have equal times, lie exactly at the edges of ranges
 * and buckets, and are 24 h (the length of a session) apart, exactly or by a millisecond more or less. `far`: offsets
 * in days.
 */
const moment = (far: readonly number[]) =>
  fc
    .tuple(
      fc.constantFrom(...far),
      fc.oneof(
        { arbitrary: fc.constantFrom(-24, -1, 0, 1, 23, 24, 25, 48), weight: 4 },
        { arbitrary: fc.integer({ min: -72, max: 96 }), weight: 1 },
      ),
      fc.oneof(
        { arbitrary: fc.constantFrom(0, 0, 0, 0, -1, 1), weight: 4 },
        { arbitrary: fc.constantFrom(15, 30, 45).map((minutes) => minutes * 60_000), weight: 1 },
        { arbitrary: fc.integer({ min: 0, max: hour - 1 }), weight: 1 },
      ),
    )
    .map(([days, hours, ms]) => days * day + hours * hour + ms)

const ids = (prefix: string): fc.Arbitrary<string> => fc.constantFrom('', `${prefix}1`, `${prefix}2`, `${prefix}3`)

type DrawnEvent = Omit<RawEvent, 'event_id'> & {
  /** The event_id begins with it, so that the order of ids differs from that of the list. */
  rank: number
  /** The number of times that the event is sent. */
  copies: number
  /** The country of a second event with the same time, session and user. */
  twin?: string
}

const country = fc.constantFrom('', 'DE', 'FR', 'US', '4X')

const drawnEvent: fc.Arbitrary<DrawnEvent> = fc.record(
  {
    site_id: fc.constantFrom('a', 'a', 'a', 'b'),
    environment: fc.constantFrom('prod', 'prod', 'dev'),
    event_type: fc.constantFrom('page_view', 'page_view', 'click', 'purchase', 'sign-up', '(other)', 'é'),
    // Counted from the origin until the trial is placed; a year earlier is the range of previous_year.
    timestamp: moment([...Array<number>(12).fill(0), -7, 30, -365, -366]),
    rank: fc.nat(99),
    session_id: ids('s'),
    user_id: ids('u'),
    anonymous_id: ids('u'),
    url: fc.constantFrom(
      '',
      'https://example.com',
      'https://example.com/',
      'https://example.com/a%20b?x=1#y',
      'https://example.com/a%20b',
      '/a%20b?x',
      '//example.com/é',
      'https://example.com//b',
      'nothing',
    ),
    referrer: fc.constantFrom('', 'https://Search.Example:8443/?q', 'http://search.example/x', 'android-app://a.b.c/'),
    properties: fc.record(
      { plan: fc.constantFrom('free', 'pro', ''), 'a.b': fc.constantFrom('1', '10', '9', 'x', '1e1') },
      { requiredKeys: [] },
    ),
    country,
    device_type: fc.constantFrom('desktop', 'mobile', 'tablet'),
    copies: fc.constantFrom(1, 1, 1, 2),
    twin: country,
  },
  { requiredKeys: ['site_id', 'environment', 'event_type', 'timestamp', 'rank', 'copies'] },
)

const grouping = fc.oneof(
  fc.constantFrom<Partial<RawStatsQuery>>(
    {},
    ...timeUnits.map((unit) => ({ group_by: unit })),
    { group_by: 'hour' },
    { group_by: 'day' },
    { group_by: 'country', limit: 1 },
    { group_by: 'device_type', limit: 2 },
  ),
  fc.constantFrom(...groupFields, 'properties.plan', 'properties.a.b', 'properties.none').map((field) => ({
    group_by: field,
  })),
)

const condition = fc.oneof(
  fc.constantFrom<RawCondition>(
    { property: 'country', operator: 'in', value: ['de', 'FR'] },
    { property: 'event_type', operator: 'not_equals', value: 'click' },
    { property: 'properties.plan', operator: 'equals', value: 'pro' },
    { property: 'properties.plan', operator: 'not_in', value: ['pro', 'x'] },
    { property: 'properties.a.b', operator: 'greater_than', value: 9 },
    { property: 'properties.a.b', operator: 'less_than_or_equal', value: '9.5' },
    { property: 'url', operator: 'contains', value: 'example' },
    { property: 'path', operator: 'starts_with', value: '/a%20' },
    { property: 'referrer_host', operator: 'matches', value: '^search\\.' },
    { property: 'user_id', operator: 'exists' },
    { property: 'user.email', operator: 'not_exists' },
    { property: 'plan', operator: 'equals', value: 'pro' },
    {
      type: 'or',
      conditions: [
        { property: 'user_id', operator: 'equals', value: 'u1' },
        {
          type: 'and',
          conditions: [
            { property: 'device_type', operator: 'equals', value: 'Mobile' },
            { property: 'anonymous_id', operator: 'not_exists' },
          ],
        },
      ],
    },
  ),
)

const filters = fc.oneof(
  { arbitrary: fc.constant({}), weight: 5 },
  { arbitrary: fc.record({ country: fc.constantFrom('DE', 'FR', '4X', 'ZZ') }), weight: 1 },
  { arbitrary: fc.record({ device_type: fc.constantFrom('desktop', 'mobile') }), weight: 1 },
  { arbitrary: fc.record({ event_type: fc.constantFrom('page_view', 'é', 'none') }), weight: 1 },
  { arbitrary: fc.record({ filter: fc.array(condition, { maxLength: 2 }) }), weight: 3 },
  {
    arbitrary: fc.record({
      country: fc.constantFrom('DE', 'FR'),
      device_type: fc.constant('desktop'),
      filter: fc.array(condition, { maxLength: 1 }),
    }),
    weight: 1,
  },
)

/** A query whose range is counted from the origin until the trial is placed. */
const statsQuery: fc.Arbitrary<RawStatsQuery> = fc
  .tuple(
    fc.record({
      site_id: fc.constantFrom('a', 'a', 'a', 'b'),
      // The session metrics, which have the most rules, are drawn twice as often.
      metric: fc.constantFrom(...metrics, 'avg_session_duration', 'bounce_rate', 'conversion_rate'),
      environment: fc.constantFrom('prod', 'prod', 'dev', 'all'),
    }),
    fc.tuple(moment([0, 0, 0, 0, -7, 30]), moment([0, 0, 0, 0, 0, 7])).filter(([a, b]) => a !== b),
    grouping,
    filters,
    fc.constantFrom<Partial<RawStatsQuery>>(
      {},
      { limit: 2 },
      { limit: 1, offset: 1 },
      { target_event: 'sign-up' },
      { target_event: 'é' },
    ),
    fc.constantFrom<Partial<RawStatsQuery>>({}, {}, {}, { compare: 'previous_period' }, { compare: 'previous_year' }),
    fc.constantFrom<Partial<RawStatsQuery>>({}, {}, { exact: true }, { exact: false }),
    // Mostly empty, which stands for the zone of the trial's place.
    fc.option(fc.constantFrom('Europe/Berlin', 'Asia/Kolkata', 'Pacific/Apia', 'Etc/GMT+12'), { freq: 4, nil: '' }),
  )
  .map(([drawn, edges, ...rest]) => {
    const timezone = rest.at(-1) as string
    const more = Object.assign({}, ...rest.slice(0, -1)) as Partial<RawStatsQuery>
    const start_date = Math.min(...edges)
    const longest = more.group_by === 'minute' ? statsLimits.minutesHoursMax * hour : Infinity
    return { start_date, end_date: Math.min(Math.max(...edges), start_date + longest), timezone, ...drawn, ...more }
  })

interface Trial {
  place: (typeof places)[number]
  events: DrawnEvent[]
  queries: RawStatsQuery[]
}

const trial: fc.Arbitrary<Trial> = fc.record({
  place: fc.constantFrom(...places),
  events: fc.array(drawnEvent, { minLength: 10, maxLength: 30, size: 'max' }),
  queries: fc.array(statsQuery, { minLength: 6, maxLength: 6 }),
})

/** Six queries each, 60 in all, under a profile with other settings. */
const hostileTrialCount = 10
/** Trials that are checked concurrently: while one waits for ClickHouse, the next is computed. */
const atOnce = 4

/** Tests the answers of stats on a store with random events: six questions about those of each trial. */
export function testStatsTrials(open: () => Promise<TestStore>, { trialCount }: { trialCount: number }): void {
  beforeAll(async () => {
    store = await open()
  })

  afterAll(async () => {
    await store.drop()
  })

  test('metrics, groupings, filters and ranges of random events are those of the oracle', async () => {
    const seed = randomInt(2 ** 31)
    // All trials are stored at once, which is much faster; only a trial that fails is repeated and shrunk.
    const trials = fc.sample(trial, { numRuns: trialCount, seed }).map(placed)
    await store.insert(linesOf(trials.flatMap(({ events }) => events)))
    for (let first = 0; first < trials.length; first += atOnce) {
      const checked = await Promise.allSettled(trials.slice(first, first + atOnce).map((each) => check(each)))
      for (const [index, result] of checked.entries())
        if (result.status === 'rejected') await shrinkFailure(seed, first + index, result.reason)
    }
  })
}

/** Like `testStatsTrials`, but with a settings profile of ClickHouse. Must be called after it. */
export function testHostileProfile(): void {
  test('a profile of ClickHouse with other settings changes neither an insert nor an answer', async () => {
    const trials = fc.sample(trial, { numRuns: hostileTrialCount, seed: randomInt(2 ** 31) }).map(placed)
    const [owner, reader] = await Promise.all(
      [store.url, store.readerUrl].map((url) => withProfile(parseClickHouseUrl(url), hostileProfile)),
    )
    if (!owner || !reader) throw new Error('no profiles')
    const [strictInserter, strictReader] = [openEventInserterAt(owner.address), openClickHouseAt(reader.address)]
    try {
      // The look-back leaves out copies that arrive later, and also runs with the profile.
      const events = trials.flatMap((each) => each.events)
      for (const queryId of [randomUUID(), randomUUID()]) {
        await strictInserter.insert(
          { payloads: [Buffer.from(linesOf(events).join('\n'))], hasUndated: false },
          { queryId, shouldReplaceRunning: false, timeoutMs: 20_000 },
        )
      }
      const sites = events.map(({ site_id }) => site_id)
      const { rows } = await store.reader.query<{ stored: number; copies: number }>(
        `SELECT count() AS stored, stored - uniqExact(site_id, event_id, environment) AS copies FROM events
         WHERE site_id IN {sites:Array(String)}`,
        { sites },
      )
      const distinct = new Set(events.map((event) => [event.site_id, event.environment, event.event_id].join()))
      expect(rows).toStrictEqual([{ stored: distinct.size, copies: 0 }])
      // A session of ClickHouse takes the place of the profile, and runs one statement at a time.
      for (const each of trials) await check(each, oneAtATime(strictReader))
    } finally {
      await strictInserter.close()
      await strictReader.close()
      await owner.close()
      await reader.close()
    }
  })
}

/** Runs each query after the one before has ended. */
function oneAtATime(client: ClickHouse): Pick<ClickHouse, 'query'> {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (...asked) => {
      const next = last.then(() => client.query<never>(...asked))
      last = next.catch(() => undefined)
      return next
    },
  }
}

/** Repeats and shrinks a failed trial. Throws the failure of the smallest one. */
async function shrinkFailure(seed: number, index: number, cause: unknown): Promise<never> {
  const replayed = fc.asyncProperty(trial, async (smaller) => {
    const own = placed(smaller)
    await store.insert(linesOf(own.events))
    await check(own)
  })
  await fc.assert(replayed, { seed, path: String(index), numRuns: 1, interruptAfterTimeLimit: 30_000 })
  throw new Error(`trial ${index} of seed ${seed} failed once, and not again`, { cause })
}

interface PlacedTrial {
  events: RawEvent[]
  queries: RawStatsQuery[]
}

/**
 * Moves a trial to its place. Its sites get unique names, so that all trials can share one table, and its events get
 * ids, copies and twins.
 */
function placed({ place: [zone, origin], events, queries }: Trial): PlacedTrial {
  const suffix = randomUUID()
  return {
    events: events.flatMap(({ rank, copies, twin, ...drawn }, index) => {
      const event: RawEvent = {
        ...drawn,
        site_id: `${drawn.site_id}-${suffix}`,
        event_id: `${rank}-${index}`,
        timestamp: origin + drawn.timestamp,
      }
      const twins = twin === undefined ? [] : [{ ...event, country: twin, event_id: `${99 - rank}-${index}-twin` }]
      return [...Array<RawEvent>(copies).fill(event), ...twins]
    }),
    queries: queries.map(({ start_date, end_date, timezone = '', ...query }) => ({
      ...query,
      site_id: `${query.site_id}-${suffix}`,
      start_date: origin + start_date,
      end_date: origin + end_date,
      timezone: timezone === '' ? zone : timezone,
    })),
  }
}

function linesOf(events: readonly RawEvent[]): string[] {
  return events.map((event) => JSON.stringify({ ...event, received_at: event.timestamp }))
}

async function check(
  { events, queries }: PlacedTrial,
  client: Pick<ClickHouse, 'query'> = store.reader,
): Promise<void> {
  const results = await Promise.all(
    queries.map(async (query) => ({ query, result: await requestStats(query, client) })),
  )
  expect(results).toStrictEqual(queries.map((query) => ({ query, result: expectedData(events, query) })))
}

/** One thread is faster for few rows. */
const frugal = (client: Pick<ClickHouse, 'query'>): Pick<ClickHouse, 'query'> => ({
  query: (sql, params, options) =>
    client.query(sql, params, { ...options, settings: { ...options?.settings, max_threads: 1 } }),
})

async function requestStats(parameters: RawStatsQuery, client: Pick<ClickHouse, 'query'>): Promise<unknown> {
  const query = Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [
      name,
      typeof value === 'object' ? JSON.stringify(value) : String(value),
    ]),
  )
  const { handle } = statsRoute({ eventReader: patientReader(frugal(client)), ...allSitesKnown() })
  const { data } = await handle(apiRequest({ query, receivedAt: noon }))
  return data
}

function expectedData(events: readonly RawEvent[], query: RawStatsQuery): unknown {
  const { metric, site_id, start_date, end_date, timezone, group_by } = query
  return {
    metric,
    site_id,
    start_date,
    end_date,
    timezone,
    ...(group_by === undefined ? {} : { group_by }),
    ...expectedStats(events, query),
    complete_until: noon,
    timestamp: noon,
  }
}
