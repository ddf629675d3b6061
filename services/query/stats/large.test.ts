import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { statsQuery } from '@sluice/api/stats'
import type { StatsBatchResult } from '@sluice/contracts/stats-batch'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { measureSessions } from '@sluice/event-store/stats/measure-sessions'
import { planStats } from '@sluice/event-store/stats/spec'
import { validate } from '@sluice/runtime/validate'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { allSitesKnown, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { statsSpecOf } from './read-stats-request.ts'
import { statsBatchRoute } from './stats-batch.ts'

/** Estimates are allowed from a million sessions on; session n begins n × 70 ms after noon. */
const sessions = 1_200_000
const gapMs = 70
/** Sessions of one insert. */
const count = 200_000
/** Three of four sessions have a second event n % 600 s later; one of 40 buys. */
const isBounce = (n: number): boolean => n % 4 === 0
const durationMs = (n: number): number => (isBounce(n) ? 0 : (n % 600) * 1_000)
const isBuyer = (n: number): boolean => n % 40 === 1

let database: StatsDatabase
const site = { site_id: 'large', start_date: noon, end_date: noon + 2 * 86_400_000 }

beforeAll(async () => {
  database = await openStatsDatabase()
  const insert = (place: string, type: string, time: string, from: number): Promise<void> =>
    database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, received_at)
       SELECT 'large', 'prod', ${type}, fromUnixTimestamp64Milli({noon:Int64} + toInt64(${time}), 'UTC') AS at,
              concat('${place}', toString(number)), toString(number), at
       FROM numbers({from:UInt32}, {count:UInt32}) WHERE '${place}' = 'first' OR number % 4 != 0`,
      { params: { noon, from, count } },
    )
  for (let from = 0; from < sessions; from += count) {
    await insert('first', `'start'`, `number * ${gapMs}`, from)
    await insert('second', `if(number % 40 = 1, 'purchase', 'page')`, `number * ${gapMs} + number % 600 * 1000`, from)
  }
})

afterAll(async () => {
  await database.drop()
})

const all = Array.from({ length: sessions }, (_, n) => n)
const share = (of: (n: number) => boolean): number => (100 * all.filter(of).length) / sessions
const expected = {
  bounce_rate: share(isBounce),
  conversion_rate: share(isBuyer),
  avg_session_duration: all.reduce((sum, n) => sum + durationMs(n), 0) / sessions / 1_000,
}

const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const

const sampling = { eventsMin: 1_000_000, sampleFactor: 2, sampleMin: 500_000 }

/**
 * Measures the whole range with lower limits than those of the service, which samples from four million sessions on.
 */
async function sampled(
  metric: string,
  parameters: object = {},
  limits = sampling,
): Promise<{ value: number; isEstimated: boolean }> {
  const range = { start: noon, end: noon + 2 * 86_400_000 }
  const query = validate(statsQuery, { site_id: 'large', metric, ...parameters })
  const spec = statsSpecOf(query, range, { timezone: 'UTC', conversion_event: null }, 'prod')
  return measureSessions(planStats(spec), queryReader(database.reader).runnerFor(caller), limits)
}

describe('with more than a million sessions and thresholds that admit them', () => {
  test.each(['bounce_rate', 'avg_session_duration'] as const)(
    '%s may be estimated from a sample, within 1 %%, and says so',
    async (metric) => {
      const { value, isEstimated } = await sampled(metric)
      expect(isEstimated).toBe(true)
      // An estimate equals the exact value only by a rare chance.
      expect(value).not.toBeCloseTo(expected[metric], 5)
      expect(Math.abs(value / expected[metric] - 1)).toBeLessThan(0.01)
    },
  )

  test('conversion_rate is computed from all conversions when the sample has too few, within 1 %, and says so', async () => {
    const { value, isEstimated } = await sampled('conversion_rate')
    expect(isEstimated).toBe(true)
    expect(Math.abs(value / expected.conversion_rate - 1)).toBeLessThan(0.01)
  })

  test.each(Object.entries(expected))('%s is exact with exact=true and for few events', async (metric, value) => {
    for (const [parameters, limits] of [
      [{ exact: 'true' }, sampling],
      [{}, { ...sampling, eventsMin: 3_000_000 }],
      [{}, { ...sampling, sampleMin: 700_000 }],
    ] as const) {
      expect(await sampled(metric, parameters, limits)).toMatchObject({
        value: expect.closeTo(value, 2),
        isEstimated: false,
      })
    }
    const answered = await database.queryStats({ ...site, metric })
    expect(answered.value).toBeCloseTo(value, 2)
    expect(answered).not.toHaveProperty('estimated')
  })

  test('the number of sessions is within 1 % and marked, and exact and unmarked with exact=true', async () => {
    const parameters = { ...site, metric: 'unique_sessions' }
    for (const more of [{}, { group_by: 'country' }, { group_by: 'day' }]) {
      const { value, estimated } = await database.queryStats({ ...parameters, ...more })
      expect(value).not.toBe(sessions)
      expect(Math.abs(value / sessions - 1)).toBeLessThan(0.01)
      expect(estimated).toBe(true)
      const exact = await database.queryStats({ ...parameters, ...more, exact: 'true' })
      expect(exact.value).toBe(sessions)
      expect(JSON.stringify(exact)).not.toContain('estimated')
    }
  })

  test('buckets are exact, and groups by value of more than 65,536 sessions are marked', async () => {
    const parameters = { ...site, metric: 'unique_sessions' }
    const { breakdown: days } = await database.queryStats({ ...parameters, group_by: 'day' })
    const { breakdown: exactDays } = await database.queryStats({ ...parameters, group_by: 'day', exact: 'true' })
    expect(days).toStrictEqual(exactDays)
    const { breakdown: types } = await database.queryStats({ ...parameters, group_by: 'event_type' })
    expect(types).toMatchObject([
      { key: 'start', estimated: true },
      { key: 'page', estimated: true },
      { key: 'purchase', value: sessions / 40 },
    ])
    expect(types?.[2]).not.toHaveProperty('estimated')
  })

  test('a comparison and a batch mark each of their values by itself', async () => {
    const parameters = { ...site, metric: 'unique_sessions', compare: 'previous_period' }
    const before = { start_date: noon - 2 * 86_400_000 }
    const after = { start_date: site.end_date, end_date: site.end_date + 2 * 86_400_000 }
    expect(await database.queryStats(parameters)).toMatchObject({ estimated: true, compare: { value: 0, ...before } })
    expect((await database.queryStats(parameters)).compare).not.toHaveProperty('estimated')
    const later = await database.queryStats({ ...parameters, ...after })
    expect(later).toMatchObject({ value: 0, compare: { estimated: true } })
    expect(later).not.toHaveProperty('estimated')

    const { handle } = statsBatchRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
    const queries = [
      { ...site, metric: 'visitors' },
      { ...site, metric: 'visitors', exact: true },
    ]
    const { data } = await handle(
      apiRequest({ body: { bytes: Buffer.from(JSON.stringify({ queries })), type: 'application/json' } }),
    )
    const { results } = data as StatsBatchResult
    expect(results).toMatchObject([{ data: { estimated: true } }, { data: { value: sessions } }])
    expect(results[1]).not.toHaveProperty('data.estimated')
  })
})

test.each([65_535, 65_536])('%i distinct values are counted exactly', async (count) => {
  const range = { site_id: 'large', start_date: noon, end_date: noon + count * gapMs, event_type: 'start' }
  for (const metric of ['unique_sessions', 'visitors']) {
    const result = await database.queryStats({ ...range, metric })
    expect(result.value).toBe(count)
    expect(result).not.toHaveProperty('estimated')
  }
})

test('65,537 distinct values are counted within 1 %, and marked', async () => {
  const range = { site_id: 'large', start_date: noon, end_date: noon + 65_537 * gapMs, event_type: 'start' }
  const { value, estimated } = await database.queryStats({ ...range, metric: 'unique_sessions' })
  expect(Math.abs(value / 65_537 - 1)).toBeLessThan(0.01)
  expect(estimated).toBe(true)
})
