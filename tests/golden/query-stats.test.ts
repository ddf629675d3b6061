import { expect, test } from '@jest/globals'
import { metrics } from '@sluice/contracts/stats'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { expectGolden, joinBlocks } from './golden.ts'
import { type Replies, type SentStatement, statementBlocks } from './recording-clickhouse.ts'
import { type OperationRequest, receivedAt, runOperation } from './run-operation.ts'

type Parameters = Readonly<Record<string, string>>

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const noon = Date.UTC(2024, 4, 15, 12)
const sessionMetrics = ['avg_session_duration', 'bounce_rate', 'conversion_rate'] as const

/** The statements for these parameters of stats. */
async function runStats(
  heading: string,
  parameters: Parameters,
  request: Omit<OperationRequest, 'query'> = {},
): Promise<{ heading: string; sent: readonly SentStatement[] }> {
  const { sent, error } = await runOperation('stats', { ...request, query: { site_id: 'site-1', ...parameters } })
  if (error !== undefined) throw error as Error
  return { heading, sent }
}

async function expectStatements(
  name: string,
  runs: readonly Promise<{ heading: string; sent: readonly SentStatement[] }>[],
): Promise<void> {
  const statements = await Promise.all(runs)
  expect(statements.every(({ sent }) => sent.length > 0)).toBe(true)
  expectGolden(name, joinBlocks(statementBlocks(statements)))
}

const twoDays = { start_date: String(noon - 2 * dayMs), end_date: String(noon) }

/**
 * One metric for counts, one for keys and one for sessions; the other metrics of each kind are computed from the same
 * rows.
 */
const examples: ReadonlySet<string> = new Set(['event_count', 'event_count_by_type', 'visitors', 'conversion_rate'])
/** The queries of a table that every metric has. */
const queriesOfAll: ReadonlySet<string> = new Set([
  'without grouping',
  'by hour',
  'by country',
  'conditions',
  'a field of users',
])

/** The queries of a table that a metric has. */
function queriesOf(metric: string, table: Readonly<Record<string, Parameters>>): [name: string, Parameters][] {
  return Object.entries(table).filter(([name]) => examples.has(metric) || queriesOfAll.has(name))
}

const groupings: Readonly<Record<string, Parameters>> = {
  'without grouping': {},
  'by hour': { group_by: 'hour' },
  'by day over a change of clocks in Berlin': {
    group_by: 'day',
    timezone: 'Europe/Berlin',
    start_date: String(Date.UTC(2024, 2, 30, 5)),
    end_date: String(Date.UTC(2024, 3, 2)),
  },
  'by month in Kathmandu': {
    group_by: 'month',
    timezone: 'Asia/Kathmandu',
    start_date: String(Date.UTC(2024, 0, 1)),
    end_date: String(noon),
  },
  'by country': { group_by: 'country' },
  'by event_type': { group_by: 'event_type' },
  'by path': { group_by: 'path' },
  'by a property': { group_by: 'properties.plan' },
}

test.each(metrics)('the statements of %s are those of the golden file for every grouping', async (metric) => {
  await expectStatements(
    `stats/groupings/${metric}.txt`,
    queriesOf(metric, groupings).map(([name, parameters]) => runStats(name, { metric, ...twoDays, ...parameters })),
  )
})

test('groupings by the other units of time and fields have the statements of the golden file', async () => {
  const other = ['week', 'month', 'day', 'device_type', 'url', 'referrer_host', "properties.it's a \\ plan ✓"]
  await expectStatements(
    'stats/other-groupings.txt',
    other.map((group_by) => runStats(`visitors by ${group_by}`, { metric: 'visitors', ...twoDays, group_by })),
  )
})

const filters: Readonly<Record<string, Parameters>> = {
  fields: { country: 'de', device_type: 'Mobile', event_type: 'page_view' },
  conditions: {
    filter: JSON.stringify([
      { property: 'properties.plan', operator: 'equals', value: 'pro' },
      {
        type: 'or',
        conditions: [
          { property: 'path', operator: 'starts_with', value: '/docs' },
          { property: 'properties.price', operator: 'greater_than', value: 9.5 },
        ],
      },
    ]),
  },
  'a field of users': {
    filter: JSON.stringify([
      { property: 'user.plan', operator: 'in', value: ['pro', 'team'] },
      { property: 'email', operator: 'ends_with', value: '@example.com' },
    ]),
  },
  'a field of users in all environments': {
    environment: 'all',
    event_type: 'signup',
    filter: JSON.stringify([{ property: 'company', operator: 'exists' }]),
  },
}

test.each(metrics)('the statements of %s are those of the golden file for every kind of filter', async (metric) => {
  await expectStatements(
    `stats/filters/${metric}.txt`,
    queriesOf(metric, filters).flatMap(([name, parameters]) => [
      runStats(`of ${name} by device_type`, { metric, ...twoDays, ...parameters, group_by: 'device_type' }),
      ...(examples.has(metric) ? [runStats(`of ${name}`, { metric, ...twoDays, ...parameters })] : []),
    ]),
  )
})

const ranges: Readonly<Record<string, Parameters>> = {
  'the last 24 hours': {},
  'a period that ends within a quarter of an hour': { period: '7d' },
  'a range that begins and ends within a quarter': {
    start_date: String(noon - 50 * 60_000),
    end_date: String(noon + 50 * 60_000),
  },
  'a range within one quarter': { start_date: String(noon + 1), end_date: String(noon + 60_000) },
  'a range from 1970': { start_date: '0', end_date: String(noon) },
  'a range beyond 2106': { start_date: String(noon), end_date: String(Date.UTC(2150, 0, 1)) },
  'all environments': { environment: 'all', ...twoDays },
  'the other environment': { environment: 'dev', ...twoDays },
}

test('ranges and environments have the statements of the golden file', async () => {
  await expectStatements(
    'stats/ranges.txt',
    Object.entries(ranges).flatMap(([name, parameters]) =>
      (['event_count', 'unique_users'] as const).map((metric) =>
        runStats(`${metric} of ${name}`, { metric, ...parameters }),
      ),
    ),
  )
})

test('limits, exact results, target events and the settings of the site have the statements of the golden file', async () => {
  const metric = 'conversion_rate'
  await expectStatements('stats/options.txt', [
    runStats('exact unique users', { metric: 'unique_users', exact: 'true' }),
    runStats('exact bounce rate', { metric: 'bounce_rate', exact: 'true' }),
    runStats('visitors by country, 7 at most', { metric: 'visitors', group_by: 'country', limit: '7' }),
    runStats('event types, 3 at most', { metric: 'event_count_by_type', limit: '3' }),
    runStats('conversions to a given event', { metric, target_event: 'signup' }),
    runStats('conversions to the site’s event', { metric }, { conversionEvent: 'subscribe' }),
    runStats(
      'days of the site’s zone',
      { metric: 'event_count', group_by: 'day', ...twoDays },
      { timezone: 'Pacific/Auckland' },
    ),
  ])
})

test('comparisons have the statements of the golden file, two for each query', async () => {
  const compared = ['unique_users', 'conversion_rate'] as const
  await expectStatements(
    'stats/comparisons.txt',
    compared.flatMap((metric) =>
      (['previous_period', 'previous_year'] as const).flatMap((compare) => [
        runStats(`${metric} against ${compare}`, { metric, ...twoDays, compare }),
        runStats(`${metric} by day against ${compare}`, {
          metric,
          ...twoDays,
          compare,
          group_by: 'day',
          timezone: 'America/New_York',
        }),
      ]),
    ),
  )
})

/**
 * Replies with `events` to the count of all events, and to a sample with `sampled` measured sessions that deviate so.
 */
const manyEvents =
  (events: number, sampled: number, deviation = 0): Replies =>
  (_statement, index) => ({
    rows: [index === 0 ? { event_count: events, measured: 1 } : { ...sampleRow(deviation), measured: sampled }],
  })

/** The columns of a sample for each metric of sessions. */
function sampleRow(deviation: number): object {
  return Object.fromEntries(
    sessionMetrics.flatMap((metric) => [
      [metric, 1_000],
      [`${metric}_deviation`, deviation],
    ]),
  )
}

/** Fails the statements of these numbers as ClickHouse does when a session goes on after its 24 hours. */
const overlong =
  (failing: readonly number[], events = 0): Replies =>
  (_statement, index) => {
    if (failing.includes(index)) throw new ClickHouseError(395, 'a session goes on after its 24 hours')
    return { rows: [{ event_count: events, ...sampleRow(0), measured: 300_000 }] }
  }

test.each(sessionMetrics)('the statements of %s are those of the golden file for every plan', async (metric) => {
  const statementsOf = (heading: string, replies: Replies, parameters: Parameters = {}) =>
    runStats(heading, { metric, ...twoDays, ...parameters }, { replies })
  const common = [
    statementsOf('many events, a large sample', manyEvents(16_000_000, 250_000)),
    statementsOf('an overlong session', overlong([1])),
  ]
  // The metrics are measured over the same sessions: one of them has the other plans.
  if (metric !== 'conversion_rate') {
    await expectStatements(`stats/session-plans/${metric}.txt`, common)
    return
  }
  await expectStatements(`stats/session-plans/${metric}.txt`, [
    ...common,
    statementsOf('few events', manyEvents(15_999_999, 0)),
    statementsOf('many events, a small sample', manyEvents(16_000_000, 249_999)),
    statementsOf('many events, a sample that deviates', manyEvents(16_000_000, 250_000, 2_000)),
    statementsOf('many events, exact', manyEvents(16_000_000, 250_000), { exact: 'true' }),
    statementsOf('an overlong session in a sample', overlong([1], 16_000_000)),
    statementsOf('an overlong session by country', overlong([0]), { group_by: 'country' }),
    statementsOf('an overlong session by hour', overlong([0]), { group_by: 'hour' }),
    statementsOf('a sample of what a filter finds', manyEvents(16_000_000, 250_000), {
      country: 'de',
      filter: JSON.stringify([{ property: 'user.plan', operator: 'equals', value: 'pro' }]),
    }),
  ])
})

test('a batch of queries has the statements of the golden file, in the order of the queries', async () => {
  const { sent, error } = await runOperation('statsBatch', {
    body: {
      queries: [
        { site_id: 'site-1', metric: 'event_count', start_date: noon - dayMs, end_date: noon },
        { site_id: 'site-1', metric: 'visitors', group_by: 'country', limit: 5, exact: true },
        { site_id: 'site-1', metric: 'no such metric' },
        {
          site_id: 'site-1',
          metric: 'unique_sessions',
          period: '1h',
          filter: [{ property: 'url', operator: 'contains', value: 'a' }],
        },
        { site_id: 'site-1', metric: 'bounce_rate', period: '24h' },
        { site_id: 'site-1', metric: 'event_count_by_type', period: '24h' },
      ],
    },
  })
  expect(error).toBeUndefined()
  expectGolden('stats/batch.txt', joinBlocks(statementBlocks([{ heading: 'a batch', sent }])))
})

test('the time of receipt is within a quarter of an hour, so that ranges up to now have edges', () => {
  expect(receivedAt % (15 * 60_000)).not.toBe(0)
})
