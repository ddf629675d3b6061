import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import type { CohortAnalysis } from '@sluice/contracts/retention'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest } from '@sluice/http/route'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { badRequestCode } from '../../../tests/support/error-codes.ts'
import {
  allSitesKnown,
  noon,
  openStatsDatabase,
  type StatsDatabase,
  type StoredEvent,
} from '../../../tests/support/stats-database.ts'
import { cohortAnalysisRoute } from './cohort-analysis.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

const day = 24 * 3_600_000
const week = 7 * day
const now = Date.UTC(2025, 3, 2, 12)

interface Visit extends Partial<StoredEvent> {
  user: string
  /** Unix ms. */
  at: number
}

const siteWith = (visits: readonly Visit[]): Promise<string> =>
  database.siteWith(
    visits.map(({ user, at, ...fields }) => ({ ...fields, at: 0, timestamp: at, received_at: at, user_id: user })),
  )

const signedUp = { property: 'event_type', operator: 'equals', value: 'sign-up' } as const
const bought = { property: 'event_type', operator: 'equals', value: 'purchase' } as const

async function requestAnalysis(
  query: Record<string, string>,
  criteria: Criteria | undefined = { type: 'and', conditions: [signedUp] },
  parts: Partial<ApiRequest> = {},
): Promise<CohortAnalysis> {
  const at = 0
  const cohorts = {
    find: (cohortId: string, siteIds: readonly string[] | null) =>
      Promise.resolve(
        cohortId === 'coh_1'
          ? {
              cohortId,
              siteId: siteIds?.[0] ?? '',
              settings: { name: 'New', description: null, criteria },
              createdAt: at,
              updatedAt: at,
            }
          : undefined,
      ),
  }
  const { handle } = cohortAnalysisRoute({ ...allSitesKnown(), eventReader: queryReader(database.reader), cohorts })
  const parameters = { cohort_id: 'coh_1', ...query }
  return (await handle(apiRequest({ receivedAt: now, query: parameters, ...parts }))).data as CohortAnalysis
}

const row = (n: number, rate: number, size: number, returning: number, complete: boolean) => ({
  week: n,
  retention_rate: rate,
  cohort_size: size,
  returning_users: returning,
  complete,
})

test('weeks are counted for each user from the entry to the millisecond, and a row counts the users that have had the week', async () => {
  const entry = now - 2 * week
  const site_id = await siteWith([
    // Two weeks and a bit are over; the user returns at the first and the last moment of week 1.
    { user: 'a', at: entry - 1, event_type: 'sign-up' },
    { user: 'a', at: entry - 1 + week },
    { user: 'a', at: entry - 2 + 2 * week },
    // Exactly two weeks are over; events before the entry do not count.
    { user: 'b', at: entry - day },
    { user: 'b', at: entry, event_type: 'sign-up' },
    { user: 'b', at: entry + week - 1 },
    // Week 1 ends a millisecond later.
    { user: 'c', at: entry + 1, event_type: 'sign-up' },
    { user: 'c', at: entry + 1 + week },
    // A user without a sign-up, one that signs up later than now, and an event without a user.
    { user: 'd', at: entry },
    { user: 'e', at: now + 1, event_type: 'sign-up' },
    { user: '', at: entry, event_type: 'sign-up' },
  ])
  expect(await requestAnalysis({ site_id, weeks: '4' })).toStrictEqual({
    cohort_id: 'coh_1',
    site_id,
    cohort_name: 'New',
    size: 3,
    retention_by_week: [
      row(0, 100, 3, 3, true),
      row(1, 50, 2, 1, true),
      // The users a and b, whose week 2 has begun.
      row(2, 0, 2, 0, false),
      row(3, 0, 0, 0, false),
    ],
    complete_until: noon,
  })
})

test('row 0 is complete when week 0 of every user is over', async () => {
  const site_id = await siteWith([
    { user: 'a', at: now - week, event_type: 'sign-up' },
    { user: 'b', at: now - week + 1, event_type: 'sign-up' },
  ])
  const rows = async () => (await requestAnalysis({ site_id, weeks: '2' })).retention_by_week
  expect(await rows()).toStrictEqual([row(0, 100, 2, 2, false), row(1, 0, 1, 0, false)])
})

test('there are twelve rows by default, for a cohort without users too', async () => {
  const site_id = await siteWith([{ user: 'a', at: now - week }])
  const { size, retention_by_week: rows } = await requestAnalysis({ site_id })
  expect(size).toBe(0)
  expect(rows).toHaveLength(12)
  expect(new Set(rows.map(({ retention_rate }) => retention_rate))).toStrictEqual(new Set([0]))
})

describe('the members of a cohort and their entry', () => {
  const visits: Visit[] = [
    { user: 'both', at: now - 5 * week, event_type: 'purchase' },
    { user: 'both', at: now - 3 * week, event_type: 'sign-up' },
    { user: 'both', at: now - 1 },
    { user: 'half', at: now - 5 * week, event_type: 'sign-up' },
  ]
  const began = async (criteria: Criteria) => {
    const { size, retention_by_week: rows } = await requestAnalysis(
      { site_id: await siteWith(visits), weeks: '6' },
      criteria,
    )
    return [size, ...rows.map(({ cohort_size }) => cohort_size)]
  }

  test('by default, one event must meet all conditions', async () => {
    expect(await began({ type: 'and', conditions: [signedUp, bought] })).toStrictEqual([0, 0, 0, 0, 0, 0, 0])
    expect(await began({ type: 'or', conditions: [signedUp, bought] })).toStrictEqual([2, 2, 2, 2, 2, 2, 2])
  })

  test('with the scope user, each condition may be met by another event, and the user enters when the last of them is first met', async () => {
    const criteria = { scope: 'user', conditions: [signedUp, bought] } as const
    expect(await began({ type: 'and', ...criteria, conditions: [signedUp, bought] })).toStrictEqual([
      1, 1, 1, 1, 1, 0, 0,
    ])
    expect(await began({ type: 'or', ...criteria, conditions: [signedUp, bought] })).toStrictEqual([
      2, 2, 2, 2, 2, 2, 2,
    ])
  })

  test('a nested group of conditions must be met by one event', async () => {
    const nested = { type: 'and', conditions: [signedUp, bought] } as const
    const criteria: Criteria = {
      type: 'or',
      scope: 'user',
      conditions: [{ ...nested, conditions: [...nested.conditions] }],
    }
    expect(await began(criteria)).toStrictEqual([0, 0, 0, 0, 0, 0, 0])
  })
})

describe('fields of imported users', () => {
  let site_id: string

  beforeAll(async () => {
    site_id = await siteWith([
      { user: 'ada', at: now - week },
      { user: 'bob', at: now - week },
      { user: 'ada', at: now - week, environment: 'dev' },
      { user: 'nobody knows', at: now - week },
    ])
    await database.owner.command(
      `INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version) VALUES
       ({site_id:String}, 'prod', 'ada', 'ada@x.example', 'Ada', 'Engines', 'free', 1),
       ({site_id:String}, 'prod', 'ada', 'ada@x.example', 'Ada', 'Engines', 'pro', 2),
       ({site_id:String}, 'dev', 'ada', '', '', '', 'test', 3),
       ('another site', 'prod', 'bob', '', '', '', 'pro', 3)`,
      { params: { site_id } },
    )
  })

  test.each<[Criteria['conditions'][number], number, string?]>([
    [{ property: 'user.plan', operator: 'equals', value: 'pro' }, 1],
    [{ property: 'plan', operator: 'equals', value: 'pro' }, 1],
    [{ property: 'plan', operator: 'equals', value: 'free' }, 0],
    [{ property: 'email', operator: 'ends_with', value: '@x.example' }, 1],
    [{ property: 'name', operator: 'not_exists' }, 2],
    [{ property: 'user.company', operator: 'not_equals', value: 'Engines' }, 2],
    [{ property: 'plan', operator: 'exists' }, 1, 'dev'],
    [{ property: 'plan', operator: 'in', value: ['pro', 'test'] }, 1, 'all'],
    [{ property: 'plan', operator: 'equals', value: 'test' }, 0],
  ])('%j describes %d users', async (condition, size, environment = 'prod') => {
    for (const scope of ['event', 'user'] as const) {
      const criteria: Criteria = { type: 'and', scope, conditions: [condition] }
      expect((await requestAnalysis({ site_id, environment }, criteria)).size).toBe(size)
    }
  })

  test('are read by the filters of stats too', async () => {
    const filter = JSON.stringify([{ property: 'plan', operator: 'equals', value: 'pro' }])
    const parameters = { site_id, metric: 'event_count', start_date: now - 2 * week, end_date: now, filter }
    expect((await database.queryStats(parameters)).value).toBe(1)
    expect((await database.queryStats({ ...parameters, environment: 'dev' })).value).toBe(0)
  })
})

describe('an invalid request for an analysis', () => {
  test.each<[Record<string, string>, string]>([
    [{}, 'Missing required field: site_id'],
    [{ site_id: 's', cohort_id: '' }, 'Missing required field: cohort_id'],
    [{ site_id: 's', cohort_id: 'c'.repeat(65) }, 'Invalid field: cohort_id exceeds maximum length of 64'],
    [{ site_id: 's', weeks: '53' }, 'Invalid field: weeks must be an integer from 1 to 52'],
    [{ site_id: 's', weeks: 'x' }, 'Invalid field: weeks must be an integer from 1 to 52'],
    [{ site_id: 's', timezone: 'UTC' }, 'Invalid field: timezone is not a known parameter'],
  ])('%j is refused with 400', async (query, message) => {
    await expect(requestAnalysis(query)).rejects.toMatchObject({ code: badRequestCode(message), message })
  })

  test('with a pattern that ClickHouse refuses gets a 400 that names it', async () => {
    const site_id = await siteWith([{ user: 'a', at: now - 1 }])
    const pattern: Criteria['conditions'][number] = { property: 'user_id', operator: 'matches', value: '(' }
    const criteria: Criteria = { type: 'or', conditions: [signedUp, pattern] }
    await expect(requestAnalysis({ site_id }, criteria)).rejects.toMatchObject({
      code: 'invalid_field',
      message: 'Invalid field: criteria.conditions.1.value is not a regular expression that ClickHouse supports',
    })
  })
})

test('a missing cohort and a site that the key may not read are 404', async () => {
  await expect(requestAnalysis({ site_id: 's', cohort_id: 'coh_2' })).rejects.toMatchObject({
    message: 'Cohort not found',
  })
  const { credential } = apiRequest()
  await expect(
    requestAnalysis({ site_id: 's' }, undefined, { credential: { ...credential, siteIds: [] } }),
  ).rejects.toMatchObject({
    message: 'Site not found',
  })
})
