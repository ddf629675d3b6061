import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type Metric, metrics } from '@sluice/contracts/stats'
import { isSessionMetric } from '@sluice/contracts/stats'
import { expectedStats, type RawEvent, type RawStatsQuery } from '../../../tests/support/oracle/expected-stats.ts'
import {
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
  type StoredEvent,
} from '../../../tests/support/stats-database.ts'
import { queryReader, type QueryRunner } from '../clickhouse/query-runner.ts'
import { measureAlertSeries } from './alert-series.ts'
import type { AlertSpec } from './alert-spec.ts'
import { measureAlert } from './measure-alert.ts'
import { measureBatch } from './measure-batch.ts'

const minuteMs = 60_000

let database: StatsDatabase
let runner: QueryRunner

beforeAll(async () => {
  database = await openStatsDatabase()
  runner = queryReader(database.reader).runnerFor({
    key: 'worker',
    signal: new AbortController().signal,
    priority: 'background',
  })
})

afterAll(async () => {
  await database.drop()
})

/** Sessions of a few ids over three days, which overlap windows and come again after more than 24 hours. */
function randomEvents(seed: number): StoredEvent[] {
  const [drawn] = fc.sample(
    fc.array(
      fc.record({
        // A few minutes around each of some hours, so that windows hold several events.
        at: fc
          .tuple(fc.constantFrom(0, 1, 23, 24, 25, 30, 48, 49), fc.integer({ min: 0, max: 20 * minuteMs }))
          .map(([hours, ms]) => hours + ms / hour),
        event_type: fc.constantFrom('view', 'view', 'purchase'),
        country: fc.constantFrom('DE', 'FR'),
        session_id: fc.constantFrom('', 'a', 'b', 'c', 'd', 'e'),
        user_id: fc.constantFrom('', 'ada', 'bob', 'eve'),
        anonymous_id: fc.constantFrom('', 'x', 'y'),
      }),
      { minLength: 150, maxLength: 150 },
    ),
    { seed, numRuns: 1 },
  )
  return (drawn ?? []).map((event) => ({ ...event, event_id: randomUUID() }))
}

function byOracle(events: readonly StoredEvent[], spec: AlertSpec, end: number): { value: number; isEmpty: boolean } {
  const { siteId, metric, windowMs, eventType, filter } = spec
  const known = events
    .map(({ at, ...event }) => ({ ...event, site_id: siteId, environment: 'prod', timestamp: noon + at * hour }))
    .filter(({ timestamp }) => timestamp < end) as RawEvent[]
  const query: RawStatsQuery = {
    site_id: siteId,
    metric: metric === 'event_count_by_type' ? 'event_count' : metric,
    start_date: end - windowMs,
    end_date: end,
    environment: 'prod',
    ...(eventType === undefined ? {} : { event_type: eventType }),
    ...(filter === undefined ? {} : { filter: filter }),
  }
  const counted = isSessionMetric(metric) ? query.metric : 'event_count'
  const { breakdown = [] } = expectedStats(known, { ...query, metric: counted, group_by: 'country' })
  return { value: expectedStats(known, query).value, isEmpty: breakdown.length === 0 }
}

const variants: (Partial<AlertSpec> & { windowMs: number })[] = [
  { windowMs: 5 * minuteMs },
  { windowMs: 37 * minuteMs, eventType: 'purchase' },
  { windowMs: 26 * hour, filter: [{ property: 'country', operator: 'equals', value: 'DE' }] },
]

test.each<Metric>(metrics)(
  '%s is the one of the events so far, at once and in the series of a preview',
  async (metric) => {
    const events = randomEvents(metric.length)
    const siteId = await database.siteWith(events)
    for (const variant of variants) {
      const spec: AlertSpec = { siteId, environment: 'prod', metric, ...variant }
      const options = { comparesPrevious: true, distinguishesNoData: true }
      const range = { start: noon - hour, end: noon + 51 * hour }
      const { points, stepMs } = await measureAlertSeries(spec, range, options, runner)
      const evaluated = points.filter((_, index) => index % Math.max(1, Math.floor((29 * minuteMs) / stepMs)) === 0)
      for (const { timestamp, measured } of evaluated) {
        const { value, isEmpty } = byOracle(events, spec, timestamp)
        const previous = byOracle(events, spec, timestamp - variant.windowMs).value
        expect({ timestamp, ...measured }).toStrictEqual({
          timestamp,
          ...(isEmpty ? { outcome: 'no_data', previous } : { outcome: 'value', value, previous }),
        })
      }
      const asked = evaluated.filter(({ measured }) => measured.outcome === 'value').slice(0, 4)
      for (const { timestamp, measured } of [...asked, ...evaluated.slice(0, 1)]) {
        expect(await measureAlert(spec, timestamp, options, runner)).toStrictEqual(measured)
      }
    }
  },
)

test('specs that are measured together have the values that each has by itself', async () => {
  const events = randomEvents(99)
  const siteId = await database.siteWith(events)
  const { filter } = variants[2] ?? {}
  const asked = (['event_count', 'event_count_by_type', 'unique_users', 'unique_sessions', 'visitors'] as const)
    .flatMap((metric) => [
      { siteId, environment: 'prod' as const, metric, windowMs: 9 * minuteMs },
      { siteId, environment: 'prod' as const, metric, windowMs: hour, eventType: 'purchase', filter },
    ])
    .flatMap((spec) => [
      { spec, options: { comparesPrevious: true, distinguishesNoData: true } },
      { spec, options: { comparesPrevious: false, distinguishesNoData: false } },
    ])
  for (const end of [noon, noon + 10 * minuteMs, noon + 25 * hour, noon + 49 * hour + 21 * minuteMs]) {
    const alone = []
    for (const { spec, options } of asked) alone.push(await measureAlert(spec, end, options, runner))
    expect(await measureBatch(asked, end, runner)).toStrictEqual(alone)
  }
})

test('without the spec whether there was no event, 0 counts as no data', async () => {
  const siteId = await database.siteWith([{ at: 0 }])
  const spec: AlertSpec = { siteId, environment: 'prod', metric: 'unique_users', windowMs: hour }
  const measure = (distinguishesNoData: boolean) =>
    measureAlert(spec, noon + hour, { comparesPrevious: false, distinguishesNoData }, runner)
  expect([await measure(true), await measure(false)]).toStrictEqual([
    { outcome: 'value', value: 0, previous: 0 },
    { outcome: 'no_data', previous: 0 },
  ])
})

test.each(['avg_session_duration', 'bounce_rate', 'conversion_rate'] as const)(
  '%s has no data when no session began in the window, whatever earlier sessions do in it',
  async (metric) => {
    const session = { session_id: 'a' }
    // A session whose second event is in a later window, and one whose duration, bounce rate and conversion rate are 0.
    const siteId = await database.siteWith([
      { at: 0, ...session },
      { at: 1.5, ...session },
      { at: 3.5, session_id: 'b' },
      { at: 3.5, session_id: 'b' },
    ])
    const spec: AlertSpec = { siteId, environment: 'prod', metric, windowMs: hour }
    const options = { comparesPrevious: false, distinguishesNoData: true }
    const range = { start: noon + hour, end: noon + 4 * hour }
    const { points } = await measureAlertSeries(spec, range, options, runner)
    for (const [hours, measured] of [
      [2, { outcome: 'no_data', previous: 0 }],
      [4, { outcome: 'value', value: 0, previous: 0 }],
    ] as const) {
      const end = noon + hours * hour
      expect(await measureAlert(spec, end, options, runner)).toStrictEqual(measured)
      expect(points.find(({ timestamp }) => timestamp === end)?.measured).toStrictEqual(measured)
    }
  },
)

test('a number of users is exact however many there are, as in the preview', async () => {
  const siteId = await database.siteWith([])
  const count = 100_000
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at, user_id)
     SELECT {site_id:String}, 'prod', 'view', at, toString(number), at, toString(number)
     FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64}, 'UTC') AS at FROM numbers({count:UInt32}))`,
    { params: { site_id: siteId, noon, count } },
  )
  for (const metric of ['unique_users', 'visitors'] as const) {
    const spec: AlertSpec = { siteId, environment: 'prod', metric, windowMs: hour }
    const options = { comparesPrevious: false, distinguishesNoData: false }
    expect(await measureAlert(spec, noon + hour, options, runner)).toMatchObject({ value: count })
  }
})
