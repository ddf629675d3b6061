import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { migrateClickHouse } from '@sluice/clickhouse/migrate'
import { operators } from '@sluice/contracts/conditions'
import { siteStore } from '@sluice/postgres/sites'
import { apiRequest } from '../../../tests/api-request.ts'
import { type AskedCondition, matchesCondition } from '../../../tests/oracle/matches-condition.ts'
import { everySite, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/stats-database.ts'
import { startQuery, type TestQuery } from '../query.test-support.ts'
import { previewCohortHandler } from './handler.ts'

let database: StatsDatabase
let query: TestQuery

beforeAll(async () => {
  database = await openStatsDatabase()
  query = await startQuery()
  await migrateClickHouse(query.clickHouse.url)
  await siteStore(query.postgres).register(['shop', 'other'])
})

afterAll(async () => {
  await database.drop()
  await query.stop()
})

const buyers = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }] }
const preview = (body: unknown, key?: string) =>
  query.ask('/api/v1/cohorts/preview', { method: 'POST', body, ...(key === undefined ? {} : { key }) })

async function ask(body: object, settings: Record<string, string> = {}): Promise<unknown> {
  const handle = previewCohortHandler({
    ...everySite(),
    clickHouse: {
      query: (sql, params, { signal, settings: given }) =>
        database.reader.query(sql, params, { signal, settings: { ...given, ...settings } }),
    },
  })
  const bytes = Buffer.from(JSON.stringify(body))
  return (await handle(apiRequest({ receivedAt: noon, body: { bytes, type: 'application/json' } }))).data
}

test('size: users who are in it now; share: of all users with an event until now, in percent', async () => {
  const site_id = await database.siteWith([
    { at: -1, user_id: 'a', event_type: 'purchase' },
    { at: -2, user_id: 'a', event_type: 'purchase' },
    { at: -9_000, user_id: 'b' },
    { at: 0, user_id: 'c' },
    { at: 1, user_id: 'b', event_type: 'purchase' },
    { at: 1, user_id: 'd', event_type: 'purchase' },
    { at: -1, user_id: '', event_type: 'purchase' },
    { at: -1, user_id: 'e', event_type: 'purchase', environment: 'dev' },
  ])
  expect(await ask({ site_id, criteria: buyers })).toStrictEqual({ size: 1, share: 33.33 })
  expect(await ask({ site_id, criteria: buyers, environment: 'dev' })).toStrictEqual({ size: 1, share: 100 })
  expect(await ask({ site_id, criteria: buyers, environment: 'all' })).toStrictEqual({ size: 2, share: 50 })
  expect(await ask({ site_id: 'empty', criteria: buyers })).toStrictEqual({ size: 0, share: 0 })
})

test('400: criteria that are more than an answer may read', async () => {
  const site_id = await database.siteWith([-1, -2, -3].map((at) => ({ at, user_id: 'a' })))
  await expect(ask({ site_id, criteria: buyers }, { max_rows_to_read: '1' })).rejects.toMatchObject({
    status: 400,
    message: 'Invalid field: criteria asks for more than one answer may read: ask for fewer conditions or rarer events',
  })
})

test('every operator, on values that are there, absent, empty, of another type, and full of signs', async () => {
  const special = `100%_'"\\n.*[a]\n😀{p:String}--`
  const stored: Record<string, string>[] = [
    { p: 'apple' },
    { p: 'Apple pie' },
    { p: special },
    { p: '5' },
    { p: '5.0' },
    { p: '-10' },
    { p: 'true' },
    { p: '[5,"apple"]' },
    { p: '' },
    { other: 'apple' },
  ]
  const site_id = await database.siteWith(
    stored.map((properties, user) => ({ at: -1, user_id: `${user}`, properties: { ...properties } })),
  )
  const property = 'properties.p'
  const asked: AskedCondition[] = operators.flatMap((operator): AskedCondition[] => {
    if (operator === 'exists' || operator === 'not_exists') return [{ property, operator }]
    if (operator === 'in' || operator === 'not_in') {
      return [['apple', 5], [special], ["'", 'x']].map((value) => ({ property, operator, value }))
    }
    const isOfNumbers = /^(greater|less)/.test(operator)
    const texts = operator === 'matches' ? ['^[aA]p', '\\[a\\]', "'", '%'] : ['apple', special, "'", '%', 5]
    return (isOfNumbers ? [5, '-10', '4.9'] : texts).map((value) => ({ property, operator, value }))
  })
  const sizes = await Promise.all(
    asked.map(async (condition) => {
      const { size } = (await ask({ site_id, criteria: { type: 'and', conditions: [condition] } })) as { size: number }
      return { condition, size }
    }),
  )
  expect(sizes).toStrictEqual(
    asked.map((condition) => ({
      condition,
      size: stored.filter((properties) => matchesCondition({ properties }, condition)).length,
    })),
  )
})

describe('over HTTP', () => {
  test('200: as a form that is not saved yet sends it', async () => {
    const { status, body } = await preview({ site_id: 'shop', name: '', description: 'x', criteria: buyers })
    expect(status).toBe(200)
    expect(body.data).toStrictEqual({ size: 0, share: 0 })
  })

  test('it counts as a query', async () => {
    const { headers } = await preview(
      { site_id: 'shop', criteria: buyers },
      await query.createKey({ scopes: ['cohorts:read'] }),
    )
    expect(headers.get('x-ratelimit-limit')).toBe('1000')
  })

  test.each<[unknown, string]>([
    [{ criteria: buyers }, 'Missing required field: site_id'],
    [{ site_id: 'shop' }, 'Missing required field: criteria'],
    [{ site_id: 'shop', criteria: { ...buyers, type: 'not' } }, 'Invalid field: criteria.type must be one of: and, or'],
    [
      { site_id: 'shop', criteria: buyers, environment: 'test' },
      'Invalid field: environment must be one of: prod, dev, all',
    ],
    [{ site_id: 'shop', criteria: buyers, weeks: 1 }, 'Invalid field: weeks is not known'],
  ])('400: %j', async (sent, error) => {
    const { status, body } = await preview(sent)
    expect(status).toBe(400)
    expect(body.error).toBe(error)
  })

  test('404: a site that is not there, and one that the key is not bound to', async () => {
    const key = await query.createKey({ scopes: ['cohorts:read'], siteIds: ['shop'] })
    for (const site_id of ['nobody', 'other']) {
      const { status, body } = await preview({ site_id, criteria: buyers }, key)
      expect(status).toBe(404)
      expect(body.error).toBe('Site not found')
    }
  })
})
