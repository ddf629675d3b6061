import { test } from '@jest/globals'
import type { OperationId } from '@sluice/api/operations'
import type { Criteria } from '@sluice/contracts/conditions'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { type Block, expectGolden, joinBlocks, prettyJson } from './golden.ts'
import type { Replies } from './recording-clickhouse.ts'
import { type OperationRequest, receivedAt, refusalText, runOperation } from './run-operation.ts'

const noon = Date.UTC(2024, 4, 15, 12)
const hourMs = 3_600_000
const site_id = 'site-1'
const criteria: Criteria = {
  type: 'and',
  conditions: [
    { property: 'event_type', operator: 'equals', value: 'purchase' },
    { property: 'url', operator: 'matches', value: '^a' },
  ],
}
const threeHours = { start_date: String(noon - 3 * hourMs), end_date: String(noon) }
const steps = [{ event_type: 'a' }, { event_type: 'b' }, { event_type: 'c' }]
const event = {
  event_id: 'e1',
  site_id: 'site-1',
  event_type: 'view',
  timestamp_ms: noon,
  received_at_ms: noon + 5,
  environment: 'prod',
}
const emptyFields = {
  session_id: '',
  user_id: '',
  anonymous_id: '',
  url: '',
  referrer: '',
  country: '',
  device_type: '',
}

const always =
  (rows: readonly unknown[], totals?: unknown): Replies =>
  () => ({ rows, totals })

interface SampleRequest extends OperationRequest {
  id: OperationId
}

/** Requests, with the rows that ClickHouse replies with. */
const sampleRequests: Readonly<Record<string, SampleRequest>> = {
  'stats over a range': {
    id: 'stats',
    query: { site_id, metric: 'unique_users', period: '7d' },
    replies: always([{ unique_users: 42, measured: 50 }]),
  },
  'stats over a range, estimated': {
    id: 'stats',
    query: { site_id, metric: 'unique_users', ...threeHours, compare: 'previous_period' },
    replies: (_statement, index) => ({
      rows: [{ unique_users: 70_000 - index, measured: 80_000, estimated: 1 - index }],
    }),
  },
  'stats of a sample of sessions': {
    id: 'stats',
    query: { site_id, metric: 'bounce_rate', ...threeHours },
    replies: (_statement, index) => ({
      rows: [
        index === 0
          ? { event_count: 2e7, measured: 2e7 }
          : { bounce_rate: 25, bounce_rate_deviation: 43, measured: 1e6 },
      ],
    }),
  },
  'stats without rows': { id: 'stats', query: { site_id, metric: 'event_count', ...threeHours } },
  'stats by hour': {
    id: 'stats',
    query: { site_id, metric: 'event_count', ...threeHours, group_by: 'hour', timezone: 'Europe/Berlin' },
    replies: always([{ start: noon - 2 * hourMs, event_count: 7 }], { event_count: 7 }),
  },
  'stats by country, with others': {
    id: 'stats',
    query: { site_id, metric: 'visitors', ...threeHours, group_by: 'country', limit: '2' },
    replies: always(
      [
        { place: 'named', key: 'DE', value: 5 },
        { place: 'named', key: '', value: 2 },
        { place: 'other', key: '', value: 1, estimated: 1 },
      ],
      { value: 7 },
    ),
  },
  'stats by a property': {
    id: 'stats',
    query: { site_id, metric: 'visitors', ...threeHours, group_by: 'properties.plan' },
    replies: always([{ place: 'named', key: 'pro', value: 5 }], { value: 5 }),
  },
  'stats by type': {
    id: 'stats',
    query: { site_id, metric: 'event_count_by_type', ...threeHours },
    replies: always(
      [
        { part: '', place: 'named', type: 'view', value: 5 },
        { part: '', place: 'other', type: '', value: 2 },
      ],
      { value: 7 },
    ),
  },
  'stats by type and hour': {
    id: 'stats',
    query: { site_id, metric: 'event_count_by_type', ...threeHours, group_by: 'hour' },
    replies: always([{ part: noon - hourMs, place: 'named', type: 'view', value: 5 }], { value: 5 }),
  },
  'stats by type and country': {
    id: 'stats',
    query: { site_id, metric: 'event_count_by_type', ...threeHours, group_by: 'country' },
    replies: always([{ part: 'DE', place: 'named', type: 'view', value: 5 }], { value: 5 }),
  },
  'stats compared by hour': {
    id: 'stats',
    query: { site_id, metric: 'bounce_rate', ...threeHours, group_by: 'hour', compare: 'previous_period' },
    replies: (_statement, index) => ({ rows: [], totals: { bounce_rate: 12.5 + index } }),
  },
  'a batch of stats': {
    id: 'statsBatch',
    body: {
      queries: [
        { site_id, metric: 'event_count', start_date: noon - hourMs, end_date: noon },
        { site_id: 'unregistered', metric: 'event_count' },
        { site_id, metric: 'nothing' },
        5,
      ],
    },
    replies: (_statement, index) => (index === 0 ? { rows: [{ event_count: 3, measured: 3 }] } : {}),
  },
  live: {
    id: 'live',
    query: { site_id },
    replies: ({ sql }) =>
      sql.includes('WITH TOTALS')
        ? { rows: [{ minute: 29, events: 3, visitors: 2 }], totals: { minute: 0, events: 3, visitors: 2 } }
        : {
            rows: [
              { ...event, ...emptyFields, properties: {}, property_types: {} },
              {
                ...event,
                ...emptyFields,
                user_id: 'ada',
                properties: { a: 'x', n: '1.5', t: 'true', l: '[1,"x"]' },
                property_types: { n: 'number', t: 'boolean', l: 'array' },
              },
            ],
          },
  },
  events: {
    id: 'events',
    query: { site_id, limit: '1' },
    replies: always(
      Array.from({ length: 2 }, () => ({ ...event, ...emptyFields, url: '/x', properties: {}, property_types: {} })),
    ),
  },
  properties: {
    id: 'properties',
    query: { site_id },
    replies: always([
      { name: 'country', total: 9, value: 'DE', events: 5 },
      { name: 'country', total: 9, value: 'AT', events: 4 },
      { name: 'properties.plan', total: 2, value: 'pro', events: 2 },
    ]),
  },
  'a funnel': {
    id: 'funnel',
    body: { site_id, steps },
    replies: always([
      { level: 1, users: 10 },
      { level: 3, users: 5 },
    ]),
  },
  'a cohort’s preview': {
    id: 'previewCohort',
    body: { site_id, criteria },
    replies: always([{ size: 1, users: 3 }]),
  },
  'a cohort’s analysis': {
    id: 'cohortAnalysis',
    query: { site_id, cohort_id: 'coh_golden', weeks: '3' },
    criteria,
    replies: always([
      { weeks_over: 0, users: 2, returned: [2, 0, 0] },
      { weeks_over: 2, users: 6, returned: [6, 4, 1] },
    ]),
  },
  'a matrix of retention': {
    id: 'retention',
    query: { site_id, weeks: '3', timezone: 'Europe/Berlin' },
    replies: always([
      { begun: 0, users: 6, returned: [6, 4, 1] },
      { begun: 2, users: 3, returned: [0, 0, 3] },
    ]),
  },
  'a site': {
    id: 'getSite',
    params: { site_id },
    // The first statement finds no large site.
    replies: (_statement, index) => (index === 0 ? {} : { rows: [{ site_id, first: noon - hourMs, last: noon }] }),
  },
  sites: {
    id: 'listSites',
    query: {},
    siteIds: ['a', 'b'],
    replies: (_statement, index) => (index === 0 ? {} : { rows: [{ site_id: 'b', first: noon - hourMs, last: noon }] }),
  },
}

async function resultBlock([heading, { id, ...request }]: [string, SampleRequest]): Promise<Block> {
  const { result, error } = await runOperation(id, request)
  return { heading, text: error === undefined ? prettyJson(result) : refusalText(error) }
}

test('rows of ClickHouse become the responses of the golden file', async () => {
  const blocks = await Promise.all(Object.entries(sampleRequests).map(resultBlock))
  expectGolden('answers/of-rows.txt', joinBlocks(blocks))
})

/** Error codes of queries, with the texts that ClickHouse sends with some of them. */
const failures: readonly [code: number | undefined, text: string][] = [
  [undefined, 'connect ECONNREFUSED'],
  [60, 'Unknown table'],
  [158, 'Limit for rows to read exceeded'],
  [159, 'Timeout exceeded'],
  [202, 'Too many simultaneous queries'],
  [241, 'Query memory limit exceeded'],
  [241, 'Memory limit (total) exceeded'],
  [394, 'Query was cancelled'],
  [396, 'Limit for result exceeded'],
  [427, 'OptimizedRegularExpression: cannot compile re2: ^a, error'],
]

test('failures of ClickHouse become the errors of the golden file for every operation that reads from it', async () => {
  const unbatched = Object.entries(sampleRequests).filter(([, { id }]) => id !== 'statsBatch')
  const blocks = unbatched.map(async ([heading, sample]) => {
    const lines = failures.map(async ([code, text]) => {
      const replies: Replies = () => {
        throw new ClickHouseError(code, text)
      }
      const { error } = await runOperation(sample.id, { ...sample, replies })
      return `${code ?? 'no code'} ${text}: ${refusalText(error)}`
    })
    return { heading, text: (await Promise.all(lines)).join('\n') }
  })
  let before = ''
  const shown = (await Promise.all(blocks)).map(({ heading, text }) => {
    const block = { heading, text: text === before ? 'as before' : text }
    before = text
    return block
  })
  expectGolden('answers/of-failures.txt', joinBlocks(shown))
})

const condition = { property: 'url', operator: 'equals', value: 'x' }

/** Requests that are refused before a statement goes to ClickHouse. */
const badRequests: readonly [id: OperationId, request: OperationRequest][] = [
  ...[
    {},
    { site_id: '' },
    { site_id: 'x'.repeat(65) },
    { site_id },
    { site_id, metric: 'count' },
    { site_id, metric: 'visitors', start_date: 'yesterday' },
    { site_id, metric: 'visitors', end_date: '-1' },
    { site_id, metric: 'visitors', start_date: '2', end_date: '1' },
    { site_id, metric: 'visitors', start_date: String(receivedAt + 1) },
    { site_id, metric: 'visitors', period: '2d' },
    { site_id, metric: 'visitors', group_by: 'minute' },
    { site_id, metric: 'visitors', group_by: 'properties.' },
    { site_id, metric: 'visitors', group_by: 'properties.a\0' },
    { site_id, metric: 'visitors', group_by: 'hour', start_date: '0' },
    { site_id, metric: 'visitors', country: 'deu' },
    { site_id, metric: 'visitors', device_type: 'phone' },
    { site_id, metric: 'visitors', timezone: 'Mars/Olympus' },
    { site_id, metric: 'visitors', event_type: 'a\0' },
    { site_id, metric: 'visitors', target_event: 'x'.repeat(65) },
    { site_id, metric: 'visitors', compare: 'last_year' },
    { site_id, metric: 'visitors', environment: 'staging' },
    { site_id, metric: 'visitors', limit: '0' },
    { site_id, metric: 'visitors', limit: '1001' },
    { site_id, metric: 'visitors', exact: 'yes' },
    { site_id, metric: 'visitors', unknown: '1' },
    { site_id, metric: 'visitors', filter: '{' },
    { site_id, metric: 'visitors', filter: '{}' },
    { site_id: 'unregistered', metric: 'visitors' },
  ].map((query): [OperationId, OperationRequest] => ['stats', { query }]),
  ...[
    [5],
    [{}],
    [{ property: 'no' }],
    [{ property: 'properties.', operator: 'exists' }],
    [{ property: 'url' }],
    [{ property: 'url', operator: 'like' }],
    [{ property: 'url', operator: 'equals' }],
    [{ property: 'url', operator: 'equals', value: ['a'] }],
    [{ property: 'url', operator: 'equals', value: {} }],
    [{ property: 'url', operator: 'in', value: 'a' }],
    [{ property: 'url', operator: 'in', value: [] }],
    [{ property: 'url', operator: 'in', value: ['a', ''] }],
    [{ property: 'url', operator: 'in', value: Array(1_001).fill('a') }],
    [{ property: 'url', operator: 'exists', value: 'a' }],
    [{ property: 'url', operator: 'greater_than', value: '1x' }],
    [{ property: 'url', operator: 'matches', value: '(' }],
    [{ property: 'url', operator: 'matches', value: 'a'.repeat(5_000) }],
    [{ property: 'url', operator: 'matches', value: '(a{1000}){1000}' }],
    [{ property: 'url', operator: 'equals', value: 'a'.repeat(2_049) }],
    [{ property: 'url', operator: 'equals', value: 'a\0' }],
    [{ ...condition, more: 1 }],
    [{ type: 'xor', conditions: [condition] }],
    [{ type: 'and', conditions: [] }],
    [{ type: 'and', scope: 'user', conditions: [condition] }],
    [{ type: 'and', conditions: [{ type: 'or', conditions: [{ type: 'or', conditions: [condition] }] }] }],
    Array(21).fill(condition),
    Array.from({ length: 20 }, (_, n) => ({
      ...condition,
      operator: 'in',
      value: [`${n}${'a'.repeat(2_000)}`, 'a'.repeat(900)],
    })),
  ].map((filter): [OperationId, OperationRequest] => [
    'stats',
    { query: { site_id, metric: 'visitors', filter: JSON.stringify(filter) } },
  ]),
  ...[{}, [], { queries: 5 }, { queries: [] }, { queries: Array(21).fill({}) }, { queries: [{}], more: 1 }].map(
    (body): [OperationId, OperationRequest] => ['statsBatch', { body }],
  ),
  ...[
    { site_id },
    { site_id, steps: 5 },
    { site_id, steps: [{ event_type: 'a' }] },
    { site_id, steps: Array(9).fill({ event_type: 'a' }) },
    { site_id, steps: [{ event_type: 'a' }, {}] },
    {
      site_id,
      steps: [{ event_type: 'a' }, { event_type: 'b', conditions: [{ property: 'no', operator: 'exists' }] }],
    },
    { site_id, steps, window: '1w' },
    { site_id, steps, window: '366d' },
    { site_id, steps, start_date: '1' },
    { site_id, steps, start_date: 2, end_date: 1 },
    { site_id, steps, period: '2d' },
    { site_id: 'unregistered', steps },
  ].map((body): [OperationId, OperationRequest] => ['funnel', { body }]),
  ...[
    { site_id },
    { site_id, criteria: [] },
    { site_id, criteria: { conditions: [condition] } },
    { site_id, criteria: { type: 'and' } },
    { site_id, criteria: { type: 'and', conditions: [] } },
    { site_id, criteria: { type: 'and', scope: 'session', conditions: [condition] } },
    { site_id, criteria, name: 'x'.repeat(129) },
    { site_id, criteria, environment: 'staging' },
    { site_id, criteria, more: 1 },
  ].map((body): [OperationId, OperationRequest] => ['previewCohort', { body }]),
  ...[{}, { site_id }, { site_id, cohort_id: 'none' }, { site_id, cohort_id: 'none', weeks: '53' }].map(
    (query): [OperationId, OperationRequest] => ['cohortAnalysis', { query }],
  ),
  ...[
    { site_id, weeks: '0' },
    { site_id, cohort_id: 'none' },
    { site_id, mode: 'after' },
    { site_id, timezone: 'x' },
    { site_id, end_date: 'x' },
    { site_id: 'unregistered' },
  ].map((query): [OperationId, OperationRequest] => ['retention', { query }]),
  ...[{}, { site_id: 'unregistered' }, { site_id, more: '1' }].flatMap((query): [OperationId, OperationRequest][] => [
    ['live', { query }],
    ['events', { query }],
    ['properties', { query }],
  ]),
  ...[{ limit: '0' }, { limit: '1001' }, { offset: '-1' }, { more: '1' }].map(
    (query): [OperationId, OperationRequest] => ['listSites', { query }],
  ),
  ['getSite', { params: { site_id: 'unregistered' } }],
]

test('bad requests are refused with the texts of the golden file', async () => {
  const blocks = badRequests.map(async ([id, request]): Promise<Block> => {
    const { sent, error } = await runOperation(id, request)
    const { query, body, params } = request
    const text = JSON.stringify(query ?? body ?? params)
    return {
      heading: `${id} ${text.length > 200 ? `${text.slice(0, 150)}… (${text.length} characters)` : text}`,
      text: `${error === undefined ? 'taken' : refusalText(error)}${sent.length === 0 ? '' : ' (ClickHouse was asked)'}`,
    }
  })
  expectGolden('answers/of-bad-questions.txt', joinBlocks(await Promise.all(blocks)))
})
