import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { measureSessions, type SessionsNumber } from '@sluice/event-store/stats/measure-sessions'
import { planStats } from '@sluice/event-store/stats/spec'
import { noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'

/** Sites whose sessions last some seconds each, except for a few of 20 hours, which make up most of the mean. */
const trials = 12
const sessions = 16_000
const longSessions = 16

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

/** SQL of the duration of session `number` in seconds. */
const durationS = `if(number < ${longSessions}, 72000, 10 + number % 10)`

/** Stores the two events of every session whose hash meets the condition; the id of a session begins with its site. */
async function storeSessions(site: string, count: number, duration: string, condition = '1'): Promise<void> {
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, received_at)
     SELECT {site:String}, 'prod', 'page',
            fromUnixTimestamp64Milli({noon:Int64} + toInt64(number) + place * toInt64(${duration}) * 1000, 'UTC') AS at,
            concat(id, toString(place)), concat({site:String}, toString(number)) AS id, at
     FROM numbers({count:UInt32}) ARRAY JOIN [0, 1] AS place WHERE ${condition}`,
    { params: { site, noon, count } },
  )
}

function measure(siteId: string, isExact = false): Promise<SessionsNumber> {
  const range = { siteId, environment: 'prod', start: noon, end: noon + 86_400_000 } as const
  const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const
  return measureSessions(
    planStats({ ...range, metric: 'avg_session_duration', exact: isExact }),
    queryReader(database.reader).runnerFor(caller),
    { eventsMin: 1_000, sampleFactor: 16, sampleMin: 500 },
  )
}

test('an average of skewed durations stays within 1 %, whatever sessions the sample has', async () => {
  const errors: number[] = []
  for (let trial = 0; trial < trials; trial++) {
    const site = `skewed-${trial}-`
    await storeSessions(site, sessions, durationS)
    const exact = await measure(site, true)
    errors.push((await measure(site)).value / exact.value - 1)
  }
  expect(errors.filter((error) => Math.abs(error) > 0.01)).toEqual([])
})

test('long sessions that the sample has missed altogether are counted', async () => {
  const site = 'missed-'
  // The sample is of the sessions whose hash is a multiple of 16.
  await storeSessions(site, sessions, durationS, `number >= ${longSessions} OR cityHash64(id) % 16 != 0`)
  const exact = await measure(site, true)
  expect(exact.value).toBeGreaterThan(50)
  expect(await measure(site)).toMatchObject({ value: exact.value, isEstimated: false })
})

test('an average of even durations is taken from the sample', async () => {
  const site = 'even-'
  await storeSessions(site, sessions, '50000')
  expect(await measure(site)).toMatchObject({ value: 50_000, isEstimated: true })
})
