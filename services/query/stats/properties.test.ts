import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { filterSchema } from '@sluice/api/conditions'
import { observedPropertiesLimits, type ObservedPropertiesResult } from '@sluice/contracts/observed-properties'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { allSitesKnown, noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { propertiesRoute } from './properties.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function requestProperties(query: Record<string, string>, parts: Partial<ApiRequest> = {}) {
  const { handle } = propertiesRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
  const { data } = await handle(apiRequest({ receivedAt: noon, query, ...parts }))
  return (data as ObservedPropertiesResult).properties
}

test('properties are listed with their numbers of events and their values, the most frequent first', async () => {
  const site_id = await database.siteWith([
    { at: -1, country: 'DE', url: 'https://a.example/x?y', properties: { plan: 'pro', 'a.b': '1' } },
    { at: -2, country: 'DE', properties: { plan: 'free', empty: '' } },
    { at: -3, country: 'FR', properties: { plan: 'free' } },
    { at: -4 },
  ])
  expect(await requestProperties({ site_id })).toStrictEqual([
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

test('conditions accept every listed name, and stats count as many events', async () => {
  const site_id = await database.siteWith([
    { at: -1, country: 'DE', referrer: 'https://Search.Example:8443/', properties: { "it's": '"x"', é: '1' } },
    { at: -1, country: 'DE', referrer: 'https://search.example/', device_type: 'mobile', properties: { é: '1' } },
  ])
  const seen = await requestProperties({ site_id })
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
      const { value } = await database.queryStats({
        site_id,
        metric: 'event_count',
        filter: JSON.stringify([condition]),
        ...range,
      })
      expect({ condition, value }).toStrictEqual({ condition, value: expected })
    }
  }
})

test('events that are too old, in the future or of another environment are not read', async () => {
  const site_id = await database.siteWith([
    { at: -30 * 24 - 1, event_type: 'old' },
    { at: 0, event_type: 'to come' },
    { at: -1, event_type: 'dev', environment: 'dev' },
    { at: -1, event_type: 'prod' },
  ])
  const types = async (query: object) =>
    (await requestProperties({ site_id, ...query }))[0]?.values.map(({ value }) => value)
  expect(await types({})).toStrictEqual(['prod'])
  expect(await types({ environment: 'all' })).toStrictEqual(['dev', 'prod'])
})

test('the numbers of names and of values for each are limited', async () => {
  const { namesMax, valuesMax } = observedPropertiesLimits
  const names = Array.from({ length: namesMax }, (_, index) => [`p${index}`, 'x'])
  const site_id = await database.siteWith([
    ...[names.slice(0, 100), names.slice(100)].map((some) => ({
      at: -1,
      properties: Object.fromEntries(some) as Record<string, string>,
    })),
    ...Array.from({ length: valuesMax + 1 }, (_, index) => ({ at: -1, properties: { many: `${index}` } })),
  ])
  const seen = await requestProperties({ site_id })
  expect(seen).toHaveLength(namesMax)
  const many = seen.find(({ name }) => name === 'properties.many')
  expect(many?.count).toBe(valuesMax + 1)
  expect(many?.values).toHaveLength(valuesMax)
})

test('wrong parameters are refused with 400, a site that the key may not read with 404', async () => {
  await expect(requestProperties({})).rejects.toMatchObject({
    code: 'missing_field',
    message: 'Missing required field: site_id',
  })
  const { credential } = apiRequest()
  await expect(
    requestProperties({ site_id: 's' }, { credential: { ...credential, siteIds: [] } }),
  ).rejects.toMatchObject({
    code: 'not_found',
    message: 'Site not found',
  })
})

test('values that are too long for a condition take no places from those that can be chosen', async () => {
  const long = Array.from({ length: 2 * observedPropertiesLimits.valuesMax }, (_, n) => ({
    at: -1 - n,
    properties: { tags: `["${'x'.repeat(2_048)}${n % observedPropertiesLimits.valuesMax}"]` },
    property_types: { tags: 'array' as const },
  }))
  const short = { at: -100, properties: { tags: '["a"]' }, property_types: { tags: 'array' as const } }
  const site_id = await database.siteWith([...long, short])
  const properties = await requestProperties({ site_id })
  expect(properties.find(({ name }) => name === 'properties.tags')).toStrictEqual({
    name: 'properties.tags',
    count: long.length + 1,
    values: [{ value: '["a"]', count: 1 }],
  })
})

test('values that are too long for a condition are not listed, and count for their property', async () => {
  const [longest, longer] = ['x'.repeat(2_048), `[${'1,'.repeat(1_024)}1]`]
  const site_id = await database.siteWith([
    { at: -1, properties: { items: longest } },
    { at: -2, properties: { items: longer }, property_types: { items: 'array' } },
  ])
  const properties = await requestProperties({ site_id })
  expect(properties.find(({ name }) => name === 'properties.items')).toStrictEqual({
    name: 'properties.items',
    count: 2,
    values: [{ value: longest, count: 1 }],
  })
})
