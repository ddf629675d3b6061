import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { QueryTooLargeError } from '../clickhouse/errors.ts'
import { queryReader, type QueryRunner, type Statement } from '../clickhouse/query-runner.ts'
import { type LeadingThresholds, measureGroups } from './measure-groups.ts'
import { planStats, type StatsSpec } from './spec.ts'

const events = 400_000
const users = 30_000
const paths = 3_000
const hour = 3_600_000
/** Low enough for these events: the sample contains some thousand keys of the frequent paths. */
const thresholds: LeadingThresholds = {
  eventsMin: 1,
  sampleFactor: 4,
  sampleMin: 100,
  groupsMin: 100,
  charactersMax: 24_576,
}

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
  // Frequent users and frequent paths among many rare ones; a tenth has no user, and a few URLs have no path.
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, user_id, country, url, received_at)
     SELECT 'many', 'prod', if(number % 3 = 0, 'buy', 'view'), fromUnixTimestamp64Milli({noon:Int64} + number * 10, 'UTC') AS at,
            toString(number), toString(intDiv(number, 4)),
            if(number % 10 = 0, '', toString(floor(pow({users:UInt32}, draw)))), if(number % 2 = 0, 'DE', 'FR'),
            if(number % 50 = 0, '', concat('https://shop.example/', toString(floor(pow({paths:UInt32}, other))), '?', toString(number % 7))),
            at
     FROM
     (
         SELECT number, cityHash64(number, 1) % 1000003 / 1000003 AS draw, cityHash64(number, 2) % 1000003 / 1000003 AS other
         FROM numbers({events:UInt32})
     )`,
    { params: { noon, events, users, paths } },
  )
})

afterAll(async () => {
  await database.drop()
})

/** Remembers the statements that it runs. */
function countingRunner(): QueryRunner & { statements: Statement[] } {
  const caller = { key: 'key_test', signal: new AbortController().signal, priority: 'interactive' } as const
  const runner = queryReader(database.reader).runnerFor(caller)
  const statements: Statement[] = []
  return {
    ...runner,
    statements,
    query: (statement, options) => {
      statements.push(statement)
      return runner.query(statement, options)
    },
  }
}

const range = { siteId: 'many', environment: 'prod', start: noon + 60_000, end: noon + hour } as const

describe('a distinct count in groups of a dimension with many values', () => {
  test('is the same whether the leading groups are found first or every group is measured', async () => {
    const spec = fc.record(
      {
        metric: fc.constantFrom('visitors', 'unique_users', 'unique_sessions'),
        groupBy: fc.constantFrom('path', 'url'),
        limit: fc.integer({ min: 1, max: 20 }),
        offset: fc.constantFrom(0, 0, 3),
        filters: fc.constantFrom({}, { country: 'DE' }, { event_type: 'buy', country: 'FR' }),
      },
      { requiredKeys: ['metric', 'groupBy', 'limit', 'offset', 'filters'] },
    )
    let foundFirst = 0
    const property = fc.asyncProperty(spec, async (drawn) => {
      const plan = planStats({ ...range, ...(drawn as Partial<StatsSpec>) } as StatsSpec)
      const runner = countingRunner()
      expect(await measureGroups(plan, runner, thresholds)).toStrictEqual(
        await measureGroups(plan, countingRunner(), { ...thresholds, eventsMin: Infinity }),
      )
      if (runner.statements.some(({ sql }) => sql.includes('transform('))) foundFirst++
    })
    // How many of the drawn plans find their leading groups first depends on chance. Further rounds follow if few do.
    for (let round = 0; round < 4 && foundFirst <= 15; round++) await fc.assert(property, { numRuns: 30 })
    expect(foundFirst).toBeGreaterThan(15)
  })

  test('has leading groups whose names are too long for a URL', async () => {
    const plan = planStats({ ...range, metric: 'visitors', groupBy: 'url', limit: 40 })
    const runner = countingRunner()
    const numbers = await measureGroups(plan, runner, { ...thresholds, groupsMin: 1_000 })
    expect(JSON.stringify(runner.statements.at(-1)?.params.leading).length).toBeGreaterThan(4_096)
    expect(numbers).toStrictEqual(await measureGroups({ ...plan, exact: true }, countingRunner()))
  })

  test.each([
    ['few events', { eventsMin: events * 2 }, 2],
    ['few keys in the last group that is listed', { sampleMin: users }, 3],
    ['few groups', { groupsMin: paths * 10 }, 3],
    ['long names', { charactersMax: 5 }, 3],
  ])('is measured in every group when there are %s', async (_, changed, statements) => {
    const plan = planStats({ ...range, metric: 'visitors', groupBy: 'path', limit: 5 })
    const runner = countingRunner()
    const numbers = await measureGroups(plan, runner, { ...thresholds, ...changed })
    expect(runner.statements).toHaveLength(statements)
    expect(runner.statements.at(-1)?.sql).not.toContain('transform(')
    expect(numbers).toStrictEqual(await measureGroups({ ...plan, exact: true }, countingRunner()))
  })

  test('is measured in every group, and needs no sample, on a page that is deeper than names may be long', async () => {
    const plan = planStats({ ...range, metric: 'visitors', groupBy: 'path', limit: 5, offset: 100 })
    const runner = countingRunner()
    const numbers = await measureGroups(plan, runner, { ...thresholds, charactersMax: 104 })
    expect(runner.statements).toHaveLength(1)
    expect(numbers).toStrictEqual(await measureGroups({ ...plan, exact: true }, countingRunner()))
  })

  test('is measured in every group when the sample has more bytes than a result may', async () => {
    const plan = planStats({ ...range, metric: 'visitors', groupBy: 'path', limit: 5 })
    const runner = countingRunner()
    const numbers = await measureGroups(
      plan,
      {
        ...runner,
        query: (statement, options) =>
          runner.statements.length === 1
            ? Promise.reject(new QueryTooLargeError('bytes', { internal: String(runner.statements.push(statement)) }))
            : runner.query(statement, options),
      },
      thresholds,
    )
    expect(runner.statements[1]?.sql).toContain('sampled')
    expect(numbers).toStrictEqual(await measureGroups({ ...plan, exact: true }, countingRunner()))
  })
})
