import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { FunnelResult } from '@sluice/contracts/funnel'
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
import { startCpuStopwatch } from '../../../tests/support/stopwatch.ts'
import { funnelRoute } from './funnel.ts'

const ms = 1 / hour
const range = { start_date: noon, end_date: noon + 100 * hour }

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function requestFunnel(funnel: unknown, parts: Partial<ApiRequest> = {}): Promise<FunnelResult> {
  const { handle } = funnelRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
  const body = { bytes: Buffer.from(JSON.stringify(funnel)), type: 'application/json' }
  const { data } = await handle(apiRequest({ receivedAt: noon, body, ...parts }))
  return data as FunnelResult
}

const users = async (funnel: unknown, parts: Partial<ApiRequest> = {}): Promise<number[]> =>
  (await requestFunnel(funnel, parts)).steps.map((step) => step.users)

const view = { event_type: 'view' }
const buy = { event_type: 'buy' }

test('each step has its users and their rates from the first step and from the previous one', async () => {
  const site_id = await database.siteWith([
    ...['a', 'b', 'c'].map((user_id) => ({ at: 0, user_id, ...view })),
    ...['a', 'b'].map((user_id) => ({ at: 1, user_id, event_type: 'cart' })),
    { at: 2, user_id: 'a', ...buy },
    { at: 0, ...view },
    { at: 1, session_id: 'a', event_type: 'cart' },
  ])
  expect(await requestFunnel({ site_id, steps: [view, { event_type: 'cart' }, buy], ...range })).toStrictEqual({
    site_id,
    ...range,
    steps: [
      { event_type: 'view', users: 3, rate_from_first: 100, rate_from_previous: 100 },
      { event_type: 'cart', users: 2, rate_from_first: 66.67, rate_from_previous: 66.67 },
      { event_type: 'buy', users: 1, rate_from_first: 33.33, rate_from_previous: 50 },
    ],
    complete_until: noon,
  })
})

test('all numbers are 0 without users', async () => {
  expect((await requestFunnel({ site_id: 'empty', steps: [view, buy] })).steps).toStrictEqual([
    { event_type: 'view', users: 0, rate_from_first: 0, rate_from_previous: 0 },
    { event_type: 'buy', users: 0, rate_from_first: 0, rate_from_previous: 0 },
  ])
})

test('steps are met in their order', async () => {
  const site_id = await database.siteWith([
    { at: 1, user_id: 'a', ...view },
    { at: 0, user_id: 'a', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], ...range })).toStrictEqual([1, 0])
  expect(await users({ site_id, steps: [buy, view], ...range })).toStrictEqual([1, 1])
})

test('events of the same time are in the order of their ids', async () => {
  const site_id = await database.siteWith([
    { at: 1, user_id: 'a', event_id: '1', ...view },
    { at: 1, user_id: 'a', event_id: '2', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], ...range })).toStrictEqual([1, 1])
  expect(await users({ site_id, steps: [buy, view], ...range })).toStrictEqual([1, 0])
})

test('each step takes an event of its own', async () => {
  const once = await database.siteWith([{ at: 1, user_id: 'a', ...view }])
  expect(await users({ site_id: once, steps: [view, view], ...range })).toStrictEqual([1, 0])
  const twice = await database.siteWith([
    { at: 1, user_id: 'a', ...view },
    { at: 1, user_id: 'a', ...view },
  ])
  expect(await users({ site_id: twice, steps: [view, view, view], ...range })).toStrictEqual([1, 1, 0])
})

test('the last step is at most one window after the first one, wherever the first one is', async () => {
  const site_id = await database.siteWith([
    { at: 0, user_id: 'a', ...view },
    { at: 1, user_id: 'a', ...buy },
    { at: 0, user_id: 'b', ...view },
    { at: 1 + ms, user_id: 'b', ...buy },
    { at: 0, user_id: 'c', ...view },
    { at: 1, user_id: 'c', ...view },
    { at: 1.5, user_id: 'c', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], window: '60m', ...range })).toStrictEqual([3, 2])
  expect(await users({ site_id, steps: [view, buy], window: '3601s', ...range })).toStrictEqual([3, 3])
})

test('the window is 7 days by default', async () => {
  const site_id = await database.siteWith([
    { at: 0, user_id: 'a', ...view },
    { at: 168, user_id: 'a', ...buy },
    { at: 0, user_id: 'b', ...view },
    { at: 168 + ms, user_id: 'b', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], ...range, end_date: noon + 200 * hour })).toStrictEqual([2, 1])
})

test('all steps lie in the range', async () => {
  const site_id = await database.siteWith([
    { at: -ms, user_id: 'a', ...view },
    { at: 1, user_id: 'a', ...buy },
    { at: 0, user_id: 'b', ...view },
    { at: 100, user_id: 'b', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], ...range })).toStrictEqual([1, 0])
})

test('a step has conditions of its own', async () => {
  const site_id = await database.siteWith([
    { at: 0, user_id: 'a', url: '/pricing', ...view },
    { at: 1, user_id: 'a', properties: { plan: 'pro' }, ...buy },
    { at: 0, user_id: 'b', url: '/', ...view },
    { at: 1, user_id: 'b', properties: { plan: 'pro' }, ...buy },
    { at: 0, user_id: 'c', url: '/pricing', ...view },
    { at: 1, user_id: 'c', properties: { plan: 'free' }, ...buy },
  ])
  const steps = [
    { ...view, conditions: [{ property: 'path', operator: 'equals', value: '/pricing' }] },
    { ...buy, conditions: [{ property: 'properties.plan', operator: 'in', value: ['pro', 'team'] }] },
  ]
  expect(await users({ site_id, steps, ...range })).toStrictEqual([2, 1])
  const ofUsers = [{ ...view, conditions: [{ property: 'user.plan', operator: 'not_exists' }] }, buy]
  expect(await users({ site_id, steps: ofUsers, ...range })).toStrictEqual([3, 3])
})

test('all steps may have as many conditions as there may be, of fields with long expressions', async () => {
  const site_id = await database.siteWith([
    { at: 0, user_id: 'a', referrer: 'https://www.example.com/', ...view },
    { at: 0, user_id: 'b', referrer: 'https://www.example.org/', ...view },
  ])
  const condition = { property: 'referrer_host', operator: 'matches', value: 'example[.]com' }
  const conditions = Array<typeof condition>(20).fill(condition)
  const steps = Array.from({ length: 8 }, () => ({ ...view, conditions }))
  expect(await users({ site_id, steps, ...range })).toStrictEqual([1, 0, 0, 0, 0, 0, 0, 0])
})

test('the environment is that of the credential, unless the request names one', async () => {
  const site_id = await database.siteWith([
    { at: 0, user_id: 'a', environment: 'prod', ...view },
    { at: 1, user_id: 'a', environment: 'dev', ...buy },
  ])
  expect(await users({ site_id, steps: [view, buy], ...range })).toStrictEqual([1, 0])
  expect(await users({ site_id, steps: [view, buy], ...range, environment: 'all' })).toStrictEqual([1, 1])
})

test('the range is the last 24 hours by default', async () => {
  const { start_date, end_date } = await requestFunnel({ site_id: 's', steps: [view, buy] })
  expect([start_date, end_date]).toStrictEqual([noon - 24 * hour, noon])
})

describe('an invalid request for a funnel', () => {
  const good = { site_id: 's', steps: [view, buy] }

  test.each([
    [{ steps: [view, buy] }, 'Missing required field: site_id'],
    [{ site_id: 's' }, 'Missing required field: steps'],
    [{ ...good, steps: {} }, 'Invalid field: steps must be a list of steps'],
    [{ ...good, steps: [view] }, 'Invalid field: steps must contain at least 2 steps'],
    [{ ...good, steps: Array(9).fill(view) }, 'Invalid field: steps must contain at most 8 steps'],
    [
      {
        ...good,
        steps: Array(5).fill({
          ...view,
          conditions: [
            { type: 'or', conditions: Array(2).fill({ property: 'url', operator: 'matches', value: 'x{500}' }) },
          ],
        }),
      },
      'Invalid field: steps.4.conditions must not hold regular expressions of more than 4800 steps together, their repetitions and ranges written out',
    ],
    [{ ...good, steps: [view, {}] }, 'Missing required field: steps.1.event_type'],
    [{ ...good, steps: [view, { ...buy, name: 'x' }] }, 'Invalid field: steps.1.name is not known'],
    [
      { ...good, steps: [view, JSON.parse('{"event_type": "buy", "__proto__": 1}')] },
      'Invalid field: steps.1.__proto__ is not known',
    ],
    [
      { ...good, steps: [view, { ...buy, conditions: [{ property: 'x', operator: 'exists' }] }] },
      'Invalid field: steps.1.conditions.0.property must be one of: …',
    ],
    [{ ...good, window: '1w' }, 'Invalid field: window must be a number and a unit, s, m, h or d, e.g. 7d'],
    [{ ...good, window: '366d' }, 'Invalid field: window must be at most 365d'],
    [{ ...good, start_date: '0' }, 'Invalid field: start_date must be a number'],
    [{ ...good, end_date: 1_431_820_800 }, 'Invalid field: end_date must be Unix time in milliseconds, not in seconds'],
    [{ ...good, start_date: 5, end_date: 5 }, 'Invalid field: start_date must be before end_date'],
    [{ ...good, colour: 'red' }, 'Invalid field: colour is not known'],
    [[], 'Invalid format: body must be a JSON object'],
  ])('%j is refused with 400', async (funnel, message) => {
    await expect(requestFunnel(funnel)).rejects.toMatchObject({
      code: badRequestCode(message),
      message: message.endsWith('…') ? expect.stringContaining(message.slice(0, -1)) : message,
    })
  })
})

test('a funnel with too many steps is refused before the steps are read', async () => {
  const conditions = Array(20).fill({ property: 'url', operator: 'matches', value: 'x{598}' })
  const steps = Array(900).fill({ event_type: 'x', conditions })
  const elapsedMs = startCpuStopwatch()
  await expect(requestFunnel({ site_id: 's', steps })).rejects.toMatchObject({
    message: 'Invalid field: steps must contain at most 8 steps',
  })
  expect(elapsedMs()).toBeLessThan(5_000)
})

test('a pattern that only ClickHouse refuses is refused with 400', async () => {
  // The RE2 of ClickHouse does not know this script of Unicode 17 yet.
  const conditions = [{ property: 'url', operator: 'matches', value: '\\p{Sidetic}' }]
  const site_id = await database.siteWith([{ at: 0, user_id: 'a', url: '/x', ...buy }])
  await expect(requestFunnel({ site_id, steps: [view, { ...buy, conditions }], ...range })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: steps.1.conditions.0.value is not a regular expression that ClickHouse supports',
  })
})

test('a user with thousands of events that never reach the last step takes no more memory than others', async () => {
  const types = ['view', 'cart', 'pay', 'buy']
  const site_id = await database.siteWith(
    Array.from({ length: 8_000 }, (_, n) => ({ at: (n + 1) * ms, user_id: 'guest', event_type: types[n % 4] ?? '' })),
  )
  const steps = [...types, 'thank'].map((event_type) => ({ event_type }))
  expect(await users({ site_id, steps, ...range })).toStrictEqual([1, 1, 1, 1, 0])
})

test('an event of several steps meets the later one before it begins another sequence', async () => {
  const site_id = await database.siteWith([0, 1, 2].map((at) => ({ at, user_id: 'a', ...view })))
  const steps = [view, view, view]
  expect(await users({ site_id, steps, ...range })).toStrictEqual([1, 1, 1])
  expect(await users({ site_id, steps: [...steps, view], ...range })).toStrictEqual([1, 1, 1, 0])
  expect(await users({ site_id, steps, window: '1h', ...range })).toStrictEqual([1, 1, 0])
})

test('a site that the key may not read is 404', async () => {
  const { credential } = apiRequest()
  const bound = { credential: { ...credential, siteIds: ['another'] } }
  await expect(requestFunnel({ site_id: 's', steps: [view, buy] }, bound)).rejects.toMatchObject({
    code: 'not_found',
    message: 'Site not found',
  })
})
