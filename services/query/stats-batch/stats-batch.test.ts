import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ClickHouse } from '@sluice/clickhouse/client'
import { batchQueriesMax } from '@sluice/contracts/stats-batch'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/api-request.ts'
import { everySite, hour, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/stats-database.ts'
import { statsBatchHandler } from './handler.ts'

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

async function ask(
  queries: unknown,
  parts: Partial<ApiRequest> = {},
  clickHouse: Pick<ClickHouse, 'query'> = database.reader,
) {
  const handle = statsBatchHandler({ clickHouse, ...everySite() })
  const body = { bytes: Buffer.from(JSON.stringify({ queries })), type: 'application/json' }
  const { data } = await handle(apiRequest({ receivedAt: noon + hour, body, ...parts }))
  return (data as Batch).results
}

const metric = 'event_count'

test('each question has the answer that it has alone, in their order', async () => {
  const site_id = await database.siteWith([
    { at: 0, country: 'DE', session_id: 's' },
    { at: 0.5, country: 'FR' },
  ])
  const filter = [{ property: 'country', operator: 'equals', value: 'fr' }]
  const questions = [
    { site_id, metric, period: '1h' },
    { site_id, metric, start_date: noon, end_date: noon + 1, exact: true, limit: 5, compare: null },
    { site_id, metric, start_date: String(noon), filter },
    { site_id, metric, filter: JSON.stringify(filter), group_by: 'country' },
    { site_id, metric: 'bounce_rate' },
  ]
  const results = await ask(questions)
  expect(results.map(({ data }) => data?.value)).toStrictEqual([2, 1, 1, 1, 100])
  const alone = await database.ask({ site_id, metric, start_date: noon, end_date: noon + hour, timezone: 'UTC' })
  expect(results[0]?.data).toStrictEqual({ ...alone, period: '1h', timestamp: noon + hour })
})

test('a question that fails does not keep the others from their answers', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const { credential } = apiRequest()
  const results = await ask(
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
    'Invalid format: must be an object',
  ])
  expect(results.at(-1)).toMatchObject({ success: true, data: { value: 1 } })
})

test('a failure of ours is told as such, and logged', async () => {
  const site_id = await database.siteWith([{ at: 0 }])
  const logged: object[] = []
  const broken: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => database.reader.query(sql.replace('count()', 'count(nothing)'), params, options),
  }
  const results = await ask(
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

describe('costs a query for each question', () => {
  const spent: number[] = []
  const spend = (cost: number): void => void spent.push(cost)

  test('also for those that fail', async () => {
    await ask([{}, {}, {}], { spend })
    expect(spent).toStrictEqual([3])
  })

  test('and is refused whole', async () => {
    const refused = { spend: () => Promise.reject(new Error('no more')) }
    await expect(ask([{}], refused)).rejects.toThrow('no more')
  })
})

describe('400 for a body that holds no such list, at no cost', () => {
  const spend = (): void => {
    throw new Error('was charged')
  }

  test.each([
    [undefined, 'Missing required field: queries'],
    [{}, 'Invalid field: queries must be a list of questions'],
    [[], 'Invalid field: queries must contain at least 1 question'],
    [Array(batchQueriesMax + 1).fill({}), 'Invalid field: queries must contain at most 20 questions'],
  ])('%j', async (queries, message) => {
    await expect(ask(queries, { spend })).rejects.toMatchObject({ status: 400, message })
  })
})

test('when the client leaves, what is under way is cancelled, and the rest is not asked', async () => {
  const client = new AbortController()
  let asked = 0
  const leaving: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) => {
      asked += 1
      client.abort()
      return database.reader.query(sql, params, options)
    },
  }
  const site_id = await database.siteWith([])
  await expect(ask(Array(20).fill({ site_id, metric }), { signal: client.signal }, leaving)).rejects.toThrow()
  expect(asked).toBeLessThanOrEqual(4)
})
