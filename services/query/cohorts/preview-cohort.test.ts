import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { operators } from '@sluice/contracts/conditions'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { siteStore } from '@sluice/postgres/sites'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { matchesCondition, type RawCondition } from '../../../tests/support/oracle/matches-condition.ts'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { allSitesKnown, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { previewCohortRoute } from './preview-cohort.ts'

let database: StatsDatabase
let query: TestQuery

beforeAll(async () => {
  database = await openStatsDatabase()
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop', 'other'])
})

afterAll(async () => {
  await database.drop()
  await query.stop()
})

const buyers = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }] }
const preview = (body: unknown, key?: string) =>
  query.request('/api/v1/cohorts/preview', { method: 'POST', body, ...(key === undefined ? {} : { key }) })

async function runPreview(body: object, settings: Record<string, string> = {}): Promise<unknown> {
  const { handle } = previewCohortRoute({
    ...allSitesKnown(),
    eventReader: queryReader({
      query: (sql, params, options) =>
        database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...settings } }),
    }),
  })
  const bytes = Buffer.from(JSON.stringify(body))
  return (await handle(apiRequest({ receivedAt: noon, body: { bytes, type: 'application/json' } }))).data
}

test('the size counts the present members, and the share is their percentage of all users with an event until now', async () => {
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
  const complete_until = noon
  expect(await runPreview({ site_id, criteria: buyers })).toStrictEqual({ size: 1, share: 33.33, complete_until })
  expect(await runPreview({ site_id, criteria: buyers, environment: 'dev' })).toStrictEqual({
    size: 1,
    share: 100,
    complete_until,
  })
  expect(await runPreview({ site_id, criteria: buyers, environment: 'all' })).toStrictEqual({
    size: 2,
    share: 50,
    complete_until,
  })
  expect(await runPreview({ site_id: 'empty', criteria: buyers })).toStrictEqual({ size: 0, share: 0, complete_until })
})

test('criteria that need more than one response may read are refused with 400', async () => {
  const site_id = await database.siteWith([-1, -2, -3].map((at) => ({ at, user_id: 'a' })))
  await expect(runPreview({ site_id, criteria: buyers }, { max_rows_to_read: '1' })).rejects.toMatchObject({
    code: 'query_too_large',
    message: 'Invalid field: criteria asks for more than one answer may read: ask for fewer conditions or rarer events',
  })
})

test('every operator works on present, absent, empty and special values and on values of other types', async () => {
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
  const conditions: RawCondition[] = operators.flatMap((operator): RawCondition[] => {
    if (operator === 'exists' || operator === 'not_exists') return [{ property, operator }]
    if (operator === 'in' || operator === 'not_in') {
      return [['apple', 5], [special], ["'", 'x']].map((value) => ({ property, operator, value }))
    }
    const isOfNumbers = /^(greater|less)/.test(operator)
    const texts = operator === 'matches' ? ['^[aA]p', '\\[a\\]', "'", '%'] : ['apple', special, "'", '%', 5]
    return (isOfNumbers ? [5, '-10', '4.9'] : texts).map((value) => ({ property, operator, value }))
  })
  const sizes = await Promise.all(
    conditions.map(async (condition) => {
      const { size } = (await runPreview({ site_id, criteria: { type: 'and', conditions: [condition] } })) as {
        size: number
      }
      return { condition, size }
    }),
  )
  expect(sizes).toStrictEqual(
    conditions.map((condition) => ({
      condition,
      size: stored.filter((properties) => matchesCondition({ properties }, condition)).length,
    })),
  )
})

describe('POST /api/v1/cohorts/preview', () => {
  test('accepts the fields of a cohort that is not saved yet', async () => {
    const { status, body } = await preview({ site_id: 'shop', name: '', description: 'x', criteria: buyers })
    expect(status).toBe(200)
    expect(body.data).toStrictEqual({ size: 0, share: 0, complete_until: 0 })
  })

  test('counts against the rate limit of queries', async () => {
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
  ])('refuses %j with 400', async (sent, error) => {
    const { status, body } = await preview(sent)
    expect(status).toBe(400)
    expect(body.error).toBe(error)
  })

  test('responds with 404 for a missing site and for one that the key is not bound to', async () => {
    const key = await query.createKey({ scopes: ['cohorts:read'], siteIds: ['shop'] })
    for (const site_id of ['nobody', 'other']) {
      const { status, body } = await preview({ site_id, criteria: buyers }, key)
      expect(status).toBe(404)
      expect(body.error).toBe('Site not found')
    }
  })
})
