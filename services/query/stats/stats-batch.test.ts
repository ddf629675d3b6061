import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { batchQueriesMax } from '@sluice/contracts/stats-batch'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { badRequestCode } from '../../../tests/support/error-codes.ts'
import {
  allSitesKnown,
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
} from '../../../tests/support/stats-database.ts'
import { statsBatchRoute } from './stats-batch.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

interface Batch {
  results: { success: boolean; data?: { value: number }; error?: string }[]
}

async function requestBatch(
  queries: unknown,
  parts: Partial<ApiRequest> = {},
  clickHouse: Pick<ClickHouse, 'query'> = database.reader,
) {
  const { handle } = statsBatchRoute({ eventReader: queryReader(clickHouse), ...allSitesKnown() })
  const body = { bytes: Buffer.from(JSON.stringify({ queries })), type: 'application/json' }
  const { data } = await handle(apiRequest({ receivedAt: noon + hour, body, ...parts }))
  return (data as Batch).results
}

const metric = 'event_count'

test('each query has the same result as alone, in the order of the queries', async () => {
  const site_id = await database.siteWith([
    { at: 0, country: 'DE', session_id: 's' },
    { at: 0.5, country: 'FR' },
  ])
  const filter = [{ property: 'country', operator: 'equals', value: 'fr' }]
  const queries = [
    { site_id, metric, period: '1h' },
    { site_id, metric, start_date: noon, end_date: noon + 1, exact: true, limit: 5, compare: null },
    { site_id, metric, start_date: String(noon), filter },
    { site_id, metric, filter: JSON.stringify(filter), group_by: 'country' },
    { site_id, metric: 'bounce_rate' },
  ]
  const results = await requestBatch(queries)
  expect(results.map(({ data }) => data?.value)).toStrictEqual([2, 1, 1, 1, 100])
  const alone = await database.queryStats({ site_id, metric, start_date: noon, end_date: noon + hour, timezone: 'UTC' })
  expect(results[0]?.data).toStrictEqual({ ...alone, period: '1h', timestamp: noon + hour })
})

test('a query that fails does not affect the others', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const { credential } = apiRequest()
  const results = await requestBatch(
    [
      { metric },
      { site_id: 'foreign', metric },
      { site_id, metric, start_date: 'yesterday' },
      { site_id, metric: ['event_count'] },
      { site_id: 5, metric },
      { site_id, metric, filter: [{ property: 'age', operator: 'equals', value: 1 }] },
      { site_id, metric, colour: 'red' },
      'event_count',
      { site_id, metric },
    ],
    { credential: { ...credential, siteIds: [site_id] } },
  )
  expect(results.slice(0, -1).map(({ error }) => error)).toStrictEqual([
    'Missing required field: site_id',
    'Site not found',
    'Invalid field: start_date must be an integer from 0 to 7258118400000 (Unix milliseconds)',
    'Invalid field: metric must be a string',
    'Invalid field: site_id must be a string',
    expect.stringMatching(/^Invalid field: filter\.0\.property must be one of: event_type, /),
    'Invalid field: colour is not a known parameter',
    'Invalid format: query must be a JSON object',
  ])
  expect(results.at(-1)).toMatchObject({ success: true, data: { value: 1 } })
})

test('other requests are served while its queries are read, of which each may have many regular expressions', async () => {
  // Compiling one of these patterns takes some milliseconds.
  const condition = { property: 'url', operator: 'matches', value: '[\\pL\\PL]'.repeat(60) }
  // The unknown field, which is found last, makes each query fail, so that no statement runs.
  const query = { site_id: 'any', metric, filter: [condition, condition], other: 1 }
  const queries = Array.from({ length: batchQueriesMax }, () => query)
  let served = 0
  let next: NodeJS.Immediate | undefined
  const serve = () => {
    served += 1
    next = setImmediate(serve)
  }
  serve()
  const results = await requestBatch(queries)
  clearImmediate(next)
  expect(results.map(({ success }) => success)).toStrictEqual(queries.map(() => false))
  expect(served).toBeGreaterThanOrEqual(batchQueriesMax)
})

test('a client that leaves while its queries are read leaves no unhandled rejection', async () => {
  const client = new AbortController()
  // The client leaves during the look-up of the first query, which then fails before the batch waits for it.
  const find = () => {
    client.abort(new Error('the client has left'))
    return Promise.reject(new Error('the look-up has failed'))
  }
  const { handle } = statsBatchRoute({ eventReader: queryReader(database.reader), ...allSitesKnown(), sites: { find } })
  const queries = Array.from({ length: batchQueriesMax }, () => ({ site_id: 'any', metric }))
  const body = { bytes: Buffer.from(JSON.stringify({ queries })), type: 'application/json' }
  await expect(handle(apiRequest({ receivedAt: noon, body, signal: client.signal }))).rejects.toThrow()
  // Jest fails a test with an unhandled rejection, which Node reports after the microtasks.
  await new Promise(setImmediate)
})

test('an internal failure is reported as such and logged', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const logged: object[] = []
  const broken: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => database.reader.query(sql.replace('count()', 'count(nothing)'), params, options),
  }
  const results = await requestBatch(
    [
      { site_id, metric },
      { site_id, metric: 'bounce_rate' },
    ],
    { log: (fields) => logged.push(fields) },
    broken,
  )
  expect(results.map(({ error }) => error)).toStrictEqual(['Internal server error', 'Internal server error'])
  expect(JSON.stringify(logged)).toContain('nothing')
})

test('answers that have too many entries together are refused, without being asked once there are', async () => {
  const pairs = 90_000
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at, url)
     SELECT 'pairs', 'prod', 'view', at, toString(number), at, toString(number)
     FROM (SELECT number, fromUnixTimestamp64Milli({noon:Int64}, 'UTC') AS at FROM numbers({pairs:UInt32}))`,
    { params: { noon, pairs } },
  )
  const asked: string[] = []
  const counted: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => {
      asked.push(sql)
      return database.reader.query(sql, params, options)
    },
  }
  const byUrl = { site_id: 'pairs', metric: 'event_count_by_type', group_by: 'url' }
  // Each range is a millisecond longer than the previous one, so that the queries share no statement.
  const queries = Array.from({ length: 12 }, (_, n) => ({ ...byUrl, start_date: noon, end_date: noon + 1 + n }))
  const results = await requestBatch(queries, {}, counted)
  const answered = results.filter(({ success }) => success)
  expect(answered).toHaveLength(2)
  expect(new Set(results.map(({ error }) => error))).toStrictEqual(
    new Set([
      undefined,
      'Invalid field: queries may together return at most 250000 entries: send fewer queries in one request',
    ]),
  )
  expect(asked.length).toBeLessThan(queries.length)
})

describe('answers that have too much text together', () => {
  const tooMuch =
    'Invalid field: queries may together return at most 64000000 characters of text: send fewer queries in one request'
  const byUrl = { metric: 'event_count_by_type', group_by: 'url', start_date: noon }

  beforeAll(async () => {
    // One long value in place of thousands of short ones, which would take ClickHouse long.
    await database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at, url)
       SELECT text.1, 'prod', 'view', at, 'long', at, repeat(repeat(text.2, 1000), text.3)
       FROM (SELECT
         fromUnixTimestamp64Milli({noon:Int64}, 'UTC') AS at,
         arrayJoin([('long', 'x', 33000), ('controls', '\x01', 5500)]) AS text)`,
      { params: { noon } },
    )
  })

  test.each([
    ['are refused', 'long', 2, 2],
    ['are refused, too, when they share a statement', 'long', 1, 1],
    ['are refused, too, when the text is long in JSON alone', 'controls', 2, 2],
  ])('%s', async (_, siteId, lastLength, statements) => {
    let asked = 0
    const counting: Pick<ClickHouse, 'query'> = {
      query: (sql, params, options) => {
        asked += 1
        return database.reader.query(sql, params, options)
      },
    }
    const queries = [1, lastLength].map((length) => ({ ...byUrl, site_id: siteId, end_date: noon + length }))
    const errors = (await requestBatch(queries, {}, counting)).map(({ error }) => error)
    expect(new Set(errors)).toStrictEqual(new Set([undefined, tooMuch]))
    expect(asked).toBe(statements)
  })
})

describe('a batch', () => {
  const spent: number[] = []
  const consume = (cost: number): void => void spent.push(cost)

  test('costs one query for each of its queries, including those that fail', async () => {
    await requestBatch([{}, {}, {}], { consume })
    expect(spent).toStrictEqual([3])
  })

  test('is refused as a whole when the limit is reached', async () => {
    const refused = { consume: () => Promise.reject(new Error('no more')) }
    await expect(requestBatch([{}], refused)).rejects.toThrow('no more')
  })
})

describe('a body without a list of queries', () => {
  const consume = (): void => {
    throw new Error('was charged')
  }

  test.each([
    [undefined, 'Missing required field: queries'],
    [{}, 'Invalid field: queries must be a list'],
    [[], 'Invalid field: queries must contain at least 1 query'],
    [Array(batchQueriesMax + 1).fill({}), 'Invalid field: queries must contain at most 20 queries'],
  ])('with the value %j is refused with 400 and costs nothing', async (queries, message) => {
    await expect(requestBatch(queries, { consume })).rejects.toMatchObject({ code: badRequestCode(message), message })
  })
})

test('running queries are cancelled and further ones are not sent when the client leaves', async () => {
  const client = new AbortController()
  let statements = 0
  const leaving: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => {
      statements += 1
      client.abort()
      return database.reader.query(sql, params, options)
    },
  }
  const site_id = await database.siteWith([])
  const queries = Array.from({ length: 20 }, (_, n) => ({ site_id, metric, start_date: noon - n }))
  await expect(requestBatch(queries, { signal: client.signal }, leaving)).rejects.toThrow()
  expect(statements).toBeLessThanOrEqual(4)
})

test('metrics of the same sessions and equal questions share a statement, with the results that they have alone', async () => {
  const site_id = await database.siteWith([
    { at: 0, session_id: 'a' },
    { at: 0.5, session_id: 'a', event_type: 'purchase' },
    { at: 0.25, session_id: 'b', country: 'DE' },
  ])
  let statements = 0
  const counting: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => {
      statements += 1
      return database.reader.query(sql, params, options)
    },
  }
  const dates = { site_id, start_date: noon, end_date: noon + hour }
  const sessionMetrics = ['bounce_rate', 'avg_session_duration', 'conversion_rate']
  const queries = [
    ...sessionMetrics.map((each) => ({ ...dates, metric: each })),
    ...sessionMetrics.map((each) => ({ ...dates, metric: each, group_by: 'hour' })),
    { ...dates, metric: 'visitors' },
    { ...dates, metric: 'visitors', timezone: 'Asia/Tokyo' },
  ]
  const results = await requestBatch(queries, {}, counting)
  // Two statements for sessions, a count of the events before the one for the whole range, and one statement for
  // visitors.
  expect(statements).toBe(4)
  for (const [index, query] of queries.entries()) {
    const alone = await database.queryStats(query)
    expect(results[index]?.data).toStrictEqual({ ...alone, timestamp: noon + hour })
  }
  // Queries about other sessions, and groupings that each metric ranks by itself, share no statement.
  statements = 0
  await requestBatch(
    [
      { ...dates, metric: 'bounce_rate', country: 'DE', exact: true },
      { ...dates, metric: 'conversion_rate', exact: true },
      { ...dates, metric: 'avg_session_duration', group_by: 'country' },
      { ...dates, metric: 'bounce_rate', group_by: 'country' },
    ],
    {},
    counting,
  )
  expect(statements).toBe(4)
})

test('no answer claims to be complete until a later time than its statement, which an earlier question has begun', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  let answered = 0
  const clickHouse: Pick<ClickHouse, 'query'> = {
    query: async (sql, params, options) => {
      const result = await database.reader.query<never>(sql, params, options)
      answered += 1
      return result
    },
  }
  const { handle } = statsBatchRoute({
    eventReader: queryReader(clickHouse),
    ...allSitesKnown(),
    readCompleteUntil: (readsFrom) => readsFrom + answered,
  })
  const dates = { site_id, start_date: noon, end_date: noon + hour }
  // The last two questions begin only when others have been answered.
  const metrics = ['visitors', 'event_count', 'unique_users', 'unique_sessions', 'visitors']
  const queries = [
    ...metrics.map((each) => ({ ...dates, metric: each })),
    { ...dates, metric, compare: 'previous_period' },
  ]
  const body = { bytes: Buffer.from(JSON.stringify({ queries })), type: 'application/json' }
  const { data } = await handle(apiRequest({ receivedAt: noon + hour, body }))
  const { results } = data as { results: { data: { complete_until: number } }[] }
  const readsFrom = noon - 24 * hour
  expect(answered).toBe(5)
  expect(results.map((each) => each.data.complete_until - readsFrom)).toStrictEqual([0, 0, 0, 0, 0, -hour])
})
