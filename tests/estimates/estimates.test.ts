import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { evaluateStats, type RangeNumbers } from '@sluice/event-store/stats/evaluate-stats'
import { measureSessions } from '@sluice/event-store/stats/measure-sessions'
import { planStats, type StatsSpec } from '@sluice/event-store/stats/spec'
import { noon, openStatsDatabase, type StatsDatabase } from '../support/stats-database.ts'

/**
 * Random queries of skewed data: estimates are within the promised error, and unmarked values are exact. For the 10,000
 * queries of docs/benchmarks.md: `SLUICE_ESTIMATE_QUESTIONS=10000 npm test -- tests/estimates`.
 */
const questions = Number(process.env.SLUICE_ESTIMATE_QUESTIONS ?? 24)
const sessions = 1_600_000
const daysMs = 7 * 86_400_000

let database: StatsDatabase

/** SQL of a pseudo-random number between 0 and 1 that depends on the session's number. */
const draw = (salt: number): string => `((cityHash64(number, ${salt}) % 1000003 + 1) / 1000005)`
const normal = (salt: number): string => `sqrt(-2 * log(${draw(salt)})) * cos(2 * pi() * ${draw(salt + 1)})`

/**
 * 80 % of the sessions have one event; the others two to six over a lognormal time, one in 5,000 over eight hours. A
 * few users have most of the sessions (Zipf).
 */
beforeAll(async () => {
  database = await openStatsDatabase()
  const count = 200_000
  for (let from = 0; from < sessions; from += count) {
    await database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, user_id, country, received_at)
       SELECT 'skewed', 'prod', if(place = length - 1 AND ${draw(1)} < 0.05, 'purchase', 'page'),
              fromUnixTimestamp64Milli({noon:Int64} + toInt64(${draw(2)} * ${daysMs}) + intDiv(toInt64(length_ms) * place, greatest(length - 1, 1)), 'UTC') AS at,
              concat(toString(number), '-', toString(place)), toString(number),
              toString(floor(pow(1500000, ${draw(3)}))), char(65 + toUInt8(floor(pow(20, ${draw(4)}))), 65), at
       FROM
       (
           SELECT number,
                  if(${draw(5)} < 0.8, 1, 2 + cityHash64(number, 6) % 5) AS length,
                  if(${draw(7)} < 0.0002, 28800000, least(exp(10 + 1.5 * ${normal(8)}), 28800000)) AS length_ms
           FROM (SELECT {from:UInt64} + number AS number FROM numbers({count:UInt32}))
       )
       ARRAY JOIN range(toUInt32(length)) AS place`,
      { params: { noon, from, count } },
    )
  }
})

afterAll(async () => {
  await database.drop()
})

const question = fc
  .record({
    metric: fc.constantFrom(
      'visitors',
      'unique_users',
      'unique_sessions',
      'avg_session_duration',
      'bounce_rate',
      'conversion_rate',
    ),
    groupBy: fc.constantFrom(undefined, undefined, 'day', 'hour', 'country'),
    limit: fc.constantFrom(2, 100),
    from: fc.integer({ min: 0, max: daysMs / 2 }),
    length: fc.integer({ min: 3_600_000, max: daysMs }),
  })
  .map(({ from, length, groupBy, ...drawn }): StatsSpec => ({
    siteId: 'skewed',
    environment: 'prod',
    start: noon + from,
    end: noon + from + length,
    ...(groupBy && { groupBy }),
    ...drawn,
  }))

/** A value of an answer with its exact value. */
interface Compared {
  spec: StatsSpec
  group: string | number
  value: number
  exact: number
  isEstimated: boolean
}

test(
  'at most 1 % of the estimates are more than 1 % off, and every other value is exact',
  async () => {
    const seed = randomInt(2 ** 31)
    const compared: Compared[] = []
    const countEstimates = () => compared.filter(({ isEstimated }) => isEstimated).length
    // If by chance few answers are estimates, further queries are sent.
    for (const [asked, spec] of fc.sample(question, { numRuns: 4 * questions, seed }).entries()) {
      if (asked >= questions && countEstimates() > questions / 10) break
      compared.push(...(await compare(spec)))
    }
    const off = (error: number) => compared.filter(({ value, exact }) => Math.abs(value - exact) > error * exact)
    expect({ seed, wrong: off(0).filter(({ isEstimated }) => !isEstimated) }).toEqual({ seed, wrong: [] })
    const estimates = countEstimates()
    expect(estimates).toBeGreaterThan(questions / 10)
    // If there are few estimates, one of them may by chance be off by more than 1 %.
    expect(off(0.01).length).toBeLessThanOrEqual(Math.max(1, 0.01 * estimates))
  },
  600_000 + questions * 5_000,
)

async function compare(spec: StatsSpec): Promise<Compared[]> {
  const [answer, exact] = [await evaluate(spec), await evaluate({ ...spec, exact: true })]
  const ofGroup = new Map(exact.groups?.map(({ group, start, value }) => [group ?? start, value]))
  const groups = (answer.groups ?? []).flatMap(({ group, start, value, isEstimated }) => {
    const exactValue = ofGroup.get(group ?? start)
    // An estimate may change places with another group at the limit.
    return exactValue === undefined || group === '(other)'
      ? []
      : [{ spec, group: group ?? start, value, exact: exactValue, isEstimated }]
  })
  return [{ spec, group: 'all', value: answer.value, exact: exact.value, isEstimated: answer.isEstimated }, ...groups]
}

/** Metrics of sessions are sampled from a smaller number of events on than in the service. */
async function evaluate(spec: StatsSpec): Promise<Pick<RangeNumbers, 'value' | 'isEstimated' | 'groups'>> {
  const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const
  const runner = queryReader(database.reader).runnerFor(caller)
  const isOfSessions = !['visitors', 'unique_users', 'unique_sessions'].includes(spec.metric)
  return isOfSessions && spec.groupBy === undefined
    ? measureSessions(planStats(spec), runner, { eventsMin: 100_000, sampleFactor: 2, sampleMin: 20_000 })
    : evaluateStats(spec, runner)
}
