import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { measureSessions, type SessionsNumber } from '@sluice/event-store/stats/measure-sessions'
import { planStats, type StatsSpec } from '@sluice/event-store/stats/spec'
import { noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'

const dayMs = 86_400_000
const hourMs = 3_600_000

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** Stores sessions of two events; the second is `last`, `pauseMs` later. */
async function storeSessions(
  site: string,
  sessions: { name: string; count: number; startMs: number; pauseMs: number; last: string },
): Promise<void> {
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, received_at)
     SELECT {site:String}, 'prod', if(place = 0, 'page', {last:String}),
            fromUnixTimestamp64Milli({start:Int64} + toInt64(number) % 60000 + place * {pause:Int64}, 'UTC') AS at,
            concat(id, toString(place)), concat({site:String}, {name:String}, toString(number)) AS id, at
     FROM numbers({count:UInt32}) ARRAY JOIN [0, 1] AS place`,
    { params: { site, ...sessions, start: noon + sessions.startMs, pause: sessions.pauseMs } },
  )
}

const statements: string[] = []

function measure(siteId: string, more: Partial<StatsSpec> = {}): Promise<SessionsNumber> {
  statements.length = 0
  const range = { siteId, environment: 'prod', start: noon, end: noon + dayMs } as const
  const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const
  const runner = queryReader(database.reader).runnerFor(caller)
  return measureSessions(
    planStats({ ...range, metric: 'conversion_rate', ...more }),
    {
      ...runner,
      query: (statement, options) => {
        statements.push(statement.sql)
        return runner.query(statement, options)
      },
    },
    { eventsMin: 1_000, sampleFactor: 2, sampleMin: 20_000 },
  )
}

const isOfConverted = (sql: string) => sql.includes('AS converted')

test('a small share of converted sessions is measured from their own events, also at both ends of the range', async () => {
  const site = 'edges-'
  const last = 'purchase'
  await storeSessions(site, { name: 'a', count: 90_000, startMs: hourMs, pauseMs: 1_000, last: 'page' })
  await storeSessions(site, { name: 'b', count: 5_000, startMs: hourMs, pauseMs: 1_000, last })
  // These begin in the range and convert after it, which counts.
  await storeSessions(site, { name: 'c', count: 5_000, startMs: dayMs - hourMs, pauseMs: 2 * hourMs, last })
  // These begin before the range, or after it.
  await storeSessions(site, { name: 'd', count: 5_000, startMs: -hourMs, pauseMs: 2 * hourMs, last })
  await storeSessions(site, { name: 'e', count: 5_000, startMs: dayMs + hourMs, pauseMs: 1_000, last })

  expect(await measure(site, { exact: true })).toMatchObject({ value: 10, isEstimated: false })
  const { value, isEstimated } = await measure(site)
  expect(isEstimated).toBe(true)
  expect(Math.abs(value - 10)).toBeLessThan(0.1)
  expect(statements.filter(isOfConverted)).toHaveLength(1)

  // Conditions on events, and sessions that end early, need the sessions themselves.
  for (const more of [{ filters: { event_type: 'page' } }, { sessionsUntil: noon + dayMs }]) {
    const exact = await measure(site, { ...more, exact: true })
    expect(await measure(site, more)).toStrictEqual(exact)
    expect(statements.filter(isOfConverted)).toHaveLength(0)
  }
})

test('all sessions are read when too few have converted, or one lasts for longer than 24 h', async () => {
  const rare = 'rare-'
  await storeSessions(rare, { name: 'a', count: 99_900, startMs: hourMs, pauseMs: 1_000, last: 'page' })
  await storeSessions(rare, { name: 'b', count: 100, startMs: hourMs, pauseMs: 1_000, last: 'purchase' })
  expect(await measure(rare)).toMatchObject({ value: 0.1, isEstimated: false })
  expect(statements.filter(isOfConverted)).toHaveLength(1)

  const long = 'long-'
  await storeSessions(long, { name: 'a', count: 90_000, startMs: hourMs, pauseMs: 1_000, last: 'page' })
  await storeSessions(long, { name: 'b', count: 10_000, startMs: hourMs, pauseMs: 25 * hourMs, last: 'purchase' })
  expect(await measure(long)).toMatchObject({ value: 0, isEstimated: false })
  expect(statements.filter(isOfConverted)).toHaveLength(0)
})
