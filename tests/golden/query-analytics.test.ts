import { expect, test } from '@jest/globals'
import { encodeEventCursor } from '@sluice/api/event-cursor'
import type { OperationId } from '@sluice/api/operations'
import type { Criteria } from '@sluice/contracts/conditions'
import { expectGolden, joinBlocks } from './golden.ts'
import { type SentStatement, statementBlocks } from './recording-clickhouse.ts'
import { type OperationRequest, runOperation } from './run-operation.ts'

const noon = Date.UTC(2024, 4, 15, 12)
const hourMs = 3_600_000
const site_id = 'site-1'

async function expectStatements(
  name: string,
  id: OperationId,
  requests: Readonly<Record<string, OperationRequest>>,
): Promise<void> {
  const statements: { heading: string; sent: readonly SentStatement[] }[] = []
  for (const [heading, each] of Object.entries(requests)) {
    const { sent, error } = await runOperation(id, each)
    expect(error).toBeUndefined()
    expect(sent.length).toBeGreaterThan(0)
    statements.push({ heading, sent })
  }
  expectGolden(name, joinBlocks(statementBlocks(statements)))
}

test('funnels have the statements of the golden file', async () => {
  const steps = [{ event_type: 'page_view' }, { event_type: 'purchase' }]
  await expectStatements('analytics/funnel.txt', 'funnel', {
    'two steps': { body: { site_id, steps } },
    'a window of 30 minutes': { body: { site_id, steps, window: '30m' } },
    'the longest window': { body: { site_id, steps, window: '365d' } },
    'conditions of steps, and of users': {
      body: {
        site_id,
        steps: [
          {
            event_type: 'page_view',
            conditions: [
              { property: 'path', operator: 'equals', value: '/pricing' },
              { property: 'user.plan', operator: 'not_equals', value: 'free' },
            ],
          },
          {
            event_type: 'signup',
            conditions: [
              {
                type: 'or',
                conditions: [
                  { property: 'country', operator: 'in', value: ['de', 'at'] },
                  { property: 'properties.trial', operator: 'exists' },
                ],
              },
            ],
          },
          { event_type: 'purchase' },
        ],
        start_date: noon - 30 * 86_400_000,
        end_date: noon,
      },
    },
    'eight steps in all environments': {
      body: {
        site_id,
        environment: 'all',
        period: '30d',
        steps: Array.from({ length: 8 }, (_, n) => ({ event_type: `step ${n}` })),
      },
    },
    'the other environment': { body: { site_id, environment: 'dev', steps } },
  })
})

const perEnvironment = {
  'the key’s environment': { query: { site_id } },
  'the other environment': { query: { site_id, environment: 'dev' } },
  'all environments': { query: { site_id, environment: 'all' } },
}

test('live has the statements of the golden file', async () => {
  await expectStatements('analytics/live.txt', 'live', perEnvironment)
})

test('events have the statements of the golden file', async () => {
  const before = encodeEventCursor({ timestamp: noon - hourMs, eventId: 'evt', environment: 'prod' })
  await expectStatements('analytics/events.txt', 'events', {
    ...perEnvironment,
    'a page further back': { query: { site_id, period: '7d', limit: '10', before } },
    'conditions on users': {
      query: { site_id, filter: '[{"property":"user.plan","operator":"equals","value":"pro"}]' },
    },
  })
})

test('properties have the statements of the golden file', async () => {
  await expectStatements('analytics/properties.txt', 'properties', perEnvironment)
})

const purchase: Criteria = {
  type: 'and',
  conditions: [
    { property: 'event_type', operator: 'equals', value: 'purchase' },
    { property: 'properties.plan', operator: 'in', value: ['pro', 'team'] },
  ],
}
const allOfUser: Criteria = { ...purchase, scope: 'user' }
const anyOfUser: Criteria = { ...allOfUser, type: 'or' }
const ofUsers: Criteria = {
  type: 'and',
  scope: 'user',
  conditions: [
    { property: 'user.company', operator: 'equals', value: 'Example' },
    {
      type: 'or',
      conditions: [
        { property: 'event_type', operator: 'equals', value: 'login' },
        { property: 'user.email', operator: 'ends_with', value: '@example.com' },
      ],
    },
    { property: 'url', operator: 'matches', value: '^https://(www\\.)?example' },
  ],
}
const criteria: Readonly<Record<string, Criteria>> = {
  'all conditions of one event': purchase,
  'all conditions of a user': allOfUser,
  'any condition of a user': anyOfUser,
  'conditions of users’ fields': ofUsers,
}

test('the previews of cohorts have the statements of the golden file', async () => {
  await expectStatements('analytics/cohort-preview.txt', 'previewCohort', {
    ...Object.fromEntries(
      Object.entries(criteria).map(([heading, each]) => [heading, { body: { site_id, criteria: each } }]),
    ),
    'all environments': { body: { site_id, criteria: ofUsers, environment: 'all' } },
    'the other environment': { body: { site_id, criteria: purchase, environment: 'dev' } },
  })
})

test('the analyses of cohorts have the statements of the golden file', async () => {
  const cohort_id = 'coh_golden'
  await expectStatements('analytics/cohort-analysis.txt', 'cohortAnalysis', {
    ...Object.fromEntries(
      Object.entries(criteria).map(([heading, each]) => [heading, { query: { site_id, cohort_id }, criteria: each }]),
    ),
    'one week': { query: { site_id, cohort_id, weeks: '1' }, criteria: purchase },
    '52 weeks in all environments': {
      query: { site_id, cohort_id, weeks: '52', environment: 'all' },
      criteria: allOfUser,
    },
  })
})

test('the matrices of retention have the statements of the golden file', async () => {
  const requestOf = (query: Readonly<Record<string, string>>): OperationRequest => ({
    query: { site_id, weeks: '5', ...query },
  })
  await expectStatements('analytics/retention.txt', 'retention', {
    'twelve weeks': { query: { site_id } },
    '52 weeks': { query: { site_id, weeks: '52' } },
    ...Object.fromEntries(
      ['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Kiritimati'].map((timezone) => [
        `weeks in ${timezone}`,
        requestOf({ timezone }),
      ]),
    ),
    'weeks around a change of clocks': requestOf({
      timezone: 'Europe/Berlin',
      end_date: String(Date.UTC(2024, 3, 10)),
    }),
    'weeks around the day that Samoa left out': requestOf({
      timezone: 'Pacific/Apia',
      end_date: String(Date.UTC(2012, 0, 10)),
    }),
    'weeks long ago, of which a bit stands for two': requestOf({ end_date: String(Date.UTC(2020, 0, 10)) }),
    'weeks that begin in 1970': requestOf({ end_date: String(Date.UTC(1970, 0, 2)) }),
    'a week or any later one': requestOf({ mode: 'on_or_after' }),
    'an event to come back with': requestOf({ return_event: 'login' }),
    'an event to come back with in a zone': requestOf({
      return_event: 'login',
      mode: 'on_or_after',
      timezone: 'Europe/Berlin',
    }),
    'a cohort': { ...requestOf({ cohort_id: 'coh_golden' }), criteria: ofUsers },
    'a cohort in all environments': {
      ...requestOf({ cohort_id: 'coh_golden', environment: 'all', timezone: 'America/New_York' }),
      criteria: allOfUser,
    },
    'the site’s zone': { ...requestOf({}), timezone: 'Asia/Tokyo' },
  })
})

test('the times of a site’s events have the statements of the golden file', async () => {
  await expectStatements('analytics/event-times-of-one-site.txt', 'getSite', { 'one site': { params: { site_id } } })
  await expectStatements('analytics/event-times-of-many-sites.txt', 'listSites', {
    'a list with one site': { query: {} },
    'a list with three sites': { query: {}, siteIds: ['a', "it's", 'ü'] },
    'a list with two large sites, of which one has lost its earliest rows': {
      query: {},
      siteIds: ['a', 'b', 'c'],
      replies: ({ sql }, index) => {
        if (index === 0) return { rows: ['a', 'b'].map((siteId) => ({ siteId, early: noon - hourMs, late: noon })) }
        if (!sql.includes('UNION ALL')) return {}
        return { rows: ['a', 'b'].map((id) => ({ site_id: id, first: id === 'a' ? noon - hourMs : null, last: noon })) }
      },
    },
  })
})

test('a site that is not registered is looked up by the statement of the golden file', async () => {
  await expectStatements('analytics/site-lookup.txt', 'live', {
    'a site with events alone': {
      query: { site_id: 'unregistered' },
      replies: (_statement, index) => (index === 0 ? { rows: [{ 1: 1 }] } : {}),
    },
  })
})
