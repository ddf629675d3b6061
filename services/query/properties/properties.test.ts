import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { filterSchema } from '@sluice/contracts/conditions'
import { seenLimits } from '@sluice/contracts/seen-properties'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/api-request.ts'
import { everySite, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/stats-database.ts'
import { propertiesHandler, type SeenProperties } from './handler.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function ask(query: Record<string, string>, parts: Partial<ApiRequest> = {}) {
  const handle = propertiesHandler({ clickHouse: database.reader, ...everySite() })
  const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
  return (data as SeenProperties).properties
}

test('names with how many events have them, the most frequent first, and their values', async () => {
  const site_id = await database.siteWith([
    { at: -1, country: 'DE', url: 'https://a.example/x?y', properties: { plan: 'pro', 'a.b': '1' } },
    { at: -2, country: 'DE', properties: { plan: 'free', empty: '' } },
    { at: -3, country: 'FR', properties: { plan: 'free' } },
    { at: -4 },
  ])
  expect(await ask({ site_id })).toStrictEqual([
    { name: 'event_type', count: 4, values: [{ value: 'page_view', count: 4 }] },
    {
      name: 'country',
      count: 3,
      values: [
        { value: 'DE', count: 2 },
        { value: 'FR', count: 1 },
      ],
    },
    {
      name: 'properties.plan',
      count: 3,
      values: [
        { value: 'free', count: 2 },
        { value: 'pro', count: 1 },
      ],
    },
    { name: 'path', count: 1, values: [{ value: '/x', count: 1 }] },
    { name: 'properties.a.b', count: 1, values: [{ value: '1', count: 1 }] },
    { name: 'url', count: 1, values: [{ value: 'https://a.example/x?y', count: 1 }] },
  ])
})

test('whatever is named, a condition takes, and stats find as many', async () => {
  const site_id = await database.siteWith([
    { at: -1, country: 'DE', referrer: 'https://Search.Example:8443/', properties: { "it's": '"x"', é: '1' } },
    { at: -1, country: 'DE', referrer: 'https://search.example/', device_type: 'mobile', properties: { é: '1' } },
  ])
  const seen = await ask({ site_id })
  expect(seen.map(({ name }) => name)).toContain("properties.it's")
  for (const { name, count, values } of seen) {
    const conditions = [
      { condition: { property: name, operator: 'exists' }, count },
      ...values.map((each) => ({
        condition: { property: name, operator: 'equals', value: each.value },
        count: each.count,
      })),
    ]
    for (const { condition, count: expected } of conditions) {
      expect(filterSchema.validate([condition]).error).toBeUndefined()
      const range = { start_date: noon - 30 * 24 * 3_600_000, end_date: noon }
      const { value } = await database.ask({
        site_id,
        metric: 'event_count',
        filter: JSON.stringify([condition]),
        ...range,
      })
      expect({ condition, value }).toStrictEqual({ condition, value: expected })
    }
  }
})

test('what is too old or yet to come is not looked at, nor what is of another environment', async () => {
  const site_id = await database.siteWith([
    { at: -30 * 24 - 1, event_type: 'old' },
    { at: 0, event_type: 'to come' },
    { at: -1, event_type: 'dev', environment: 'dev' },
    { at: -1, event_type: 'prod' },
  ])
  const types = async (query: object) => (await ask({ site_id, ...query }))[0]?.values.map(({ value }) => value)
  expect(await types({})).toStrictEqual(['prod'])
  expect(await types({ environment: 'all' })).toStrictEqual(['dev', 'prod'])
})

test('so many names, and so many values of each', async () => {
  const { namesMax, valuesMax } = seenLimits
  const names = Array.from({ length: namesMax }, (_, index) => [`p${index}`, 'x'])
  const site_id = await database.siteWith([
    ...[names.slice(0, 100), names.slice(100)].map((some) => ({
      at: -1,
      properties: Object.fromEntries(some) as Record<string, string>,
    })),
    ...Array.from({ length: valuesMax + 1 }, (_, index) => ({ at: -1, properties: { many: `${index}` } })),
  ])
  const seen = await ask({ site_id })
  expect(seen).toHaveLength(namesMax)
  const many = seen.find(({ name }) => name === 'properties.many')
  expect(many?.count).toBe(valuesMax + 1)
  expect(many?.values).toHaveLength(valuesMax)
})

test('400 for wrong parameters, 404 for a site that the key may not read', async () => {
  await expect(ask({})).rejects.toMatchObject({ status: 400, message: 'Missing required field: site_id' })
  const { credential } = apiRequest()
  await expect(ask({ site_id: 's' }, { credential: { ...credential, siteIds: [] } })).rejects.toMatchObject({
    status: 404,
    message: 'Site not found',
  })
})
