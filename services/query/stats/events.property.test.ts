import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { PropertyType } from '@sluice/contracts/event-columns'
import { eventsLimits, type EventsResult } from '@sluice/contracts/events'
import { environments } from '@sluice/contracts/scopes'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { matchesCondition, type RawCondition } from '../../../tests/support/oracle/matches-condition.ts'
import {
  allSitesKnown,
  hour,
  noon,
  openStatsDatabase,
  type StatsDatabase,
} from '../../../tests/support/stats-database.ts'
import { eventsRoute } from './events.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function requestEvents(query: Record<string, string>): Promise<EventsResult> {
  const { handle } = eventsRoute({ eventReader: queryReader(database.reader), ...allSitesKnown() })
  const { data } = await handle(apiRequest({ receivedAt: noon + 10 * hour, query }))
  return data as EventsResult
}

/** A property as it was sent, with the text and the type that are stored of it. */
const property = fc.constantFrom<[sent: unknown, text: string, type?: PropertyType]>(
  ['pro', 'pro'],
  ['7', '7'],
  [7, '7', 'number'],
  [-0.5, '-0.5', 'number'],
  [true, 'true', 'boolean'],
  [['a', 1], '["a",1]', 'array'],
)

/** Few times, ids and environments, so that events differ in one of the three alone. */
const event = fc.record({
  /** Milliseconds from noon. */
  ms: fc.constantFrom(-2, -1, 0, 1, 2),
  environment: fc.constantFrom(...environments),
  event_id: fc.constantFrom('a', 'b', 'B', 'é', '😀', '"\\', "it's", '\t'),
  event_type: fc.constantFrom('view', 'buy'),
  country: fc.constantFrom('', 'DE', 'FR'),
  plan: fc.option(property, { nil: undefined }),
})

const conditions: readonly RawCondition[] = [
  { property: 'event_type', operator: 'equals', value: 'buy' },
  { property: 'country', operator: 'not_equals', value: 'DE' },
  { property: 'properties.plan', operator: 'greater_than', value: '0' },
]

const question = fc.record({
  environment: fc.constantFrom(...environments, 'all'),
  start: fc.constantFrom(-2, -1, 0),
  end: fc.constantFrom(1, 2, 3),
  limit: fc.integer({ min: 1, max: 7 }),
  filter: fc.subarray([...conditions]),
})

/** ClickHouse compares the bytes of texts; by UTF-16, which JavaScript compares, emoji come before some letters. */
function compareBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}

test('the pages together are the sorted events, and only the last one is short', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(event, {
        selector: ({ ms, event_id, environment }) => `${ms} ${event_id} ${environment}`,
        maxLength: 30,
      }),
      fc.array(question, { minLength: 3, maxLength: 3 }),
      async (events, questions) => {
        const siteId = await database.siteWith(
          events.map(({ ms, plan, ...fields }) => ({
            ...fields,
            at: 0,
            timestamp: noon + ms,
            ...(plan && { properties: { plan: plan[1] } }),
            ...(plan?.[2] && { property_types: { plan: plan[2] } }),
          })),
        )
        for (const { environment, start, end, limit, filter } of questions) {
          const expected = events
            .filter((each) => environment === 'all' || each.environment === environment)
            .filter(({ ms }) => ms >= start && ms < end)
            .filter(({ plan, ...fields }) =>
              filter.every((condition) =>
                matchesCondition({ ...fields, ...(plan && { properties: { plan: plan[1] } }) }, condition),
              ),
            )
            .sort(
              (left, right) =>
                right.ms - left.ms ||
                compareBytes(right.event_id, left.event_id) ||
                environments.indexOf(right.environment) - environments.indexOf(left.environment),
            )
            .map(({ ms, plan, country, ...fields }) => ({
              ...fields,
              site_id: siteId,
              timestamp: noon + ms,
              received_at: noon,
              ...(country === '' ? {} : { country }),
              ...(plan && { properties: { plan: plan[0] } }),
            }))
          const parameters = {
            site_id: siteId,
            environment,
            start_date: `${noon + start}`,
            end_date: `${noon + end}`,
            limit: `${limit}`,
            filter: JSON.stringify(filter),
          }
          const pages = await readPages(parameters)
          expect(pages.flat()).toStrictEqual(expected)
          expect(pages.map(({ length }) => length)).toStrictEqual(lengthsOfPages(expected.length, limit))
        }
      },
    ),
    { numRuns: 40 },
  )
})

async function readPages(parameters: Record<string, string>): Promise<EventsResult['events'][]> {
  const pages: EventsResult['events'][] = []
  let before: string | null = ''
  while (before !== null) {
    const page: EventsResult = await requestEvents({ ...parameters, before })
    pages.push(page.events)
    before = page.next_before
  }
  return pages
}

function lengthsOfPages(total: number, limit: number): number[] {
  const full = Array<number>(Math.max(0, Math.ceil(total / limit) - 1)).fill(limit)
  return [...full, total - full.length * limit]
}

test('a page has 50 events unless the request says otherwise, at most 1,000', async () => {
  const site_id = await database.siteWith(Array.from({ length: 51 }, () => ({ at: 0, event_id: randomUUID() })))
  const { events, next_before } = await requestEvents({ site_id })
  expect(events).toHaveLength(eventsLimits.limitDefault)
  expect(next_before).toEqual(expect.any(String))
  expect(await requestEvents({ site_id, limit: '51' })).toMatchObject({ next_before: null })
  const message = 'Invalid field: limit must be an integer from 1 to 1000'
  await expect(requestEvents({ site_id, limit: '1001' })).rejects.toMatchObject({ message })
  await expect(requestEvents({ site_id, limit: '0' })).rejects.toMatchObject({ message })
})

test('the range is that of stats: 24 hours unless the request says otherwise', async () => {
  const site_id = await database.siteWith([-15, -14, 0, 9, 11].map((at) => ({ at, event_id: `${at}` })))
  const ids = async (parameters: object) =>
    (await requestEvents({ site_id, ...parameters })).events.map(({ event_id }) => event_id)
  expect(await ids({})).toStrictEqual(['9', '0', '-14'])
  expect(await ids({ period: '1h' })).toStrictEqual(['9'])
  expect(await ids({ start_date: `${noon}` })).toStrictEqual(['9', '0'])
  expect(await ids({ end_date: `${noon}` })).toStrictEqual(['-14', '-15'])
  await expect(ids({ start_date: `${noon}`, end_date: `${noon}` })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: start_date must be before end_date',
  })
})

test.each<[string, Record<string, string>]>([
  ['Missing required field: site_id', { site_id: '' }],
  ['Invalid field: before must be the next_before value of an earlier response', { before: 'WzFd' }],
  ['Invalid field: offset is not a known parameter', { offset: '1' }],
  ['Invalid field: environment must be one of: prod, dev, all', { environment: 'test' }],
  ['Missing required field: filter.0.property', { filter: '[{"operator":"exists"}]' }],
])('%s', async (message, parameters) => {
  await expect(requestEvents({ site_id: 'site', ...parameters })).rejects.toMatchObject({ message })
})
