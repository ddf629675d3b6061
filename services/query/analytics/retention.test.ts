import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import type { RetentionMatrix } from '@sluice/contracts/retention'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
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
import { retentionRoute } from './retention.ts'

let database: StatsDatabase

beforeAll(async () => {
  database = await openStatsDatabase()
})

afterAll(async () => {
  await database.drop()
})

const hour = 3_600_000
const day = 24 * hour
const week = 7 * day
/** A Wednesday. */
const now = Date.UTC(2025, 0, 15, 12)
const monday = Date.UTC(2025, 0, 13)

interface Visit extends Partial<StoredEvent> {
  user: string
  /** Unix ms. */
  at: number
}

const siteWith = (visits: readonly Visit[]): Promise<string> =>
  database.siteWith(
    visits.map(({ user, at, ...fields }) => ({ ...fields, at: 0, timestamp: at, received_at: at, user_id: user })),
  )

const buyers: Criteria = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'buy' }] }

interface RetentionParts extends Partial<ApiRequest> {
  settings?: Record<string, string | number>
  /** The time zone of the site. */
  timezone?: string
  /** Criteria of the only cohort. */
  criteria?: Criteria
  clickHouse?: Pick<ClickHouse, 'query'>
}

async function requestRetention(
  query: Record<string, string>,
  {
    settings = {},
    timezone = 'UTC',
    criteria,
    clickHouse = {
      query: (sql, params, options) =>
        database.reader.query(sql, params, { ...options, settings: { ...options?.settings, ...settings } }),
    },
    ...parts
  }: RetentionParts = {},
): Promise<RetentionMatrix> {
  const cohorts = {
    find: (cohortId: string, siteIds: readonly string[] | null) =>
      Promise.resolve(
        criteria && {
          cohortId,
          siteId: siteIds?.[0] ?? '',
          settings: { name: 'c', description: null, criteria },
          createdAt: 0,
          updatedAt: 0,
        },
      ),
  }
  const { handle } = retentionRoute({ ...allSitesKnown({ timezone }), eventReader: queryReader(clickHouse), cohorts })
  return (await handle(apiRequest({ receivedAt: now, query, ...parts }))).data as RetentionMatrix
}

/** For each week, the number of its new users and the numbers of those that return. */
const numbersOf = ({ cohorts }: RetentionMatrix) =>
  cohorts.map(({ size, retention_by_week: rows }) => [size, ...rows.map(({ returning_users }) => returning_users)])

const triangle: Visit[] = [
  // A user from before the first week is not new again.
  { user: 'old', at: monday - 3 * week },
  { user: 'old', at: monday - week },
  // Five users are new in the first week: three return in the second, two in the present one.
  { user: 'a', at: monday - 2 * week },
  { user: 'a', at: monday - week },
  { user: 'a', at: now - 1 },
  { user: 'b', at: monday - week - 1, event_type: 'buy' },
  { user: 'b', at: monday - week },
  { user: 'c', at: monday - 2 * week + day },
  { user: 'c', at: monday - week + day },
  { user: 'alone', at: monday - 2 * week + day },
  { user: 'pauses', at: monday - 2 * week + day },
  { user: 'pauses', at: monday + 1, event_type: 'buy' },
  // No user is new in the second week, one in the third, and one later than now.
  { user: 'new', at: monday, event_type: 'buy' },
  { user: 'later', at: now + 1 },
  { user: 'c', at: now + 1 },
  { user: '', at: monday },
]

test('the matrix has rows up to now, weeks without new users, and an average over complete weeks', async () => {
  const site_id = await siteWith(triangle)
  const row = (n: number, size: number, returning: number, complete: boolean, rate: number) => ({
    week: n,
    retention_rate: rate,
    cohort_size: size,
    returning_users: returning,
    complete,
  })
  const expected = {
    site_id,
    weeks: 3,
    timezone: 'UTC',
    cohorts: [
      {
        week_start: monday - 2 * week,
        size: 5,
        retention_by_week: [row(0, 5, 5, true, 100), row(1, 5, 3, true, 60), row(2, 5, 2, false, 40)],
      },
      {
        week_start: monday - week,
        size: 0,
        retention_by_week: [row(0, 0, 0, true, 0), row(1, 0, 0, false, 0)],
      },
      { week_start: monday, size: 1, retention_by_week: [row(0, 1, 1, false, 100)] },
    ],
    average: [
      { week: 0, retention_rate: 100, cohort_size: 5, returning_users: 5 },
      { week: 1, retention_rate: 60, cohort_size: 5, returning_users: 3 },
    ],
    complete_until: noon,
  }
  expect(await requestRetention({ site_id, weeks: '3' })).toStrictEqual(expected)
  const force = { force_optimize_projection_name: 'user_weeks' }
  expect(await requestRetention({ site_id, weeks: '3' }, { settings: force })).toStrictEqual(expected)
})

test('a week that is not over is neither complete nor part of the average, even if end_date is later', async () => {
  const site_id = await siteWith(triangle)
  const { cohorts, average } = await requestRetention({ site_id, weeks: '4', end_date: String(monday + week) })
  const complete = cohorts.map(({ retention_by_week: rows }) => rows.map((row) => row.complete))
  expect(complete).toStrictEqual([[true, true, false, false], [true, false, false], [false, false], [false]])
  expect(average.map((row) => [row.cohort_size, row.returning_users])).toStrictEqual([
    [5, 5],
    [5, 3],
    [0, 0],
  ])
})

test('the average weighs cohorts by their size', async () => {
  const site_id = await siteWith([
    ...['a', 'b', 'c'].map((user) => ({ user, at: monday - 3 * week })),
    { user: 'a', at: monday - 2 * week },
    { user: 'd', at: monday - 2 * week },
    { user: 'd', at: monday - week },
    { user: 'b', at: monday - week },
  ])
  const { average } = await requestRetention({ site_id, weeks: '4' })
  expect(average).toStrictEqual([
    { week: 0, retention_rate: 100, cohort_size: 4, returning_users: 4 },
    // One of three users returns, and one of one.
    { week: 1, retention_rate: 50, cohort_size: 4, returning_users: 2 },
    { week: 2, retention_rate: 33.33, cohort_size: 3, returning_users: 1 },
  ])
})

describe('the users that are counted depend on', () => {
  const cases: [name: string, query: Record<string, string>, numbers: number[][]][] = [
    [
      'nothing but the site and the number of weeks',
      {},
      [
        [5, 5, 3, 2],
        [0, 0, 0],
        [1, 1],
      ],
    ],
    [
      'on_or_after, which counts users that return in a later week',
      { mode: 'on_or_after' },
      [
        [5, 5, 4, 2],
        [0, 0, 0],
        [1, 1],
      ],
    ],
    [
      'return_event, which counts in week 0 too',
      { return_event: 'buy' },
      [
        [5, 1, 0, 1],
        [0, 0, 0],
        [1, 1],
      ],
    ],
    [
      'return_event and on_or_after',
      { return_event: 'buy', mode: 'on_or_after' },
      [
        [5, 2, 1, 1],
        [0, 0, 0],
        [1, 1],
      ],
    ],
    [
      'a return_event without events',
      { return_event: 'none' },
      [
        [5, 0, 0, 0],
        [0, 0, 0],
        [1, 0],
      ],
    ],
    [
      'cohort_id, which narrows the users but not their events',
      { cohort_id: 'coh_b' },
      [
        [2, 2, 1, 1],
        [0, 0, 0],
        [1, 1],
      ],
    ],
    [
      'end_date, which replaces the present',
      { end_date: String(monday - week), weeks: '2' },
      [
        [5, 5, 2],
        [0, 0],
      ],
    ],
    [
      'end_date, which a millisecond before a week is in the previous one',
      { end_date: String(monday - week - 1) },
      [
        [0, 0, 0, 0],
        [1, 1, 0],
        [5, 5],
      ],
    ],
    [
      'end_date, which may be later than now',
      { end_date: String(now + 1) },
      [
        [5, 5, 3, 3],
        [0, 0, 0],
        [2, 2],
      ],
    ],
  ]
  test.each(cases)('%s', async (_, query, numbers) => {
    const site_id = await siteWith(triangle)
    const parameters = { site_id, weeks: '3', ...query }
    const matrix = await requestRetention(parameters, { criteria: buyers })
    expect(numbersOf(matrix)).toStrictEqual(numbers)
    expect(
      await requestRetention(parameters, { criteria: buyers, settings: { optimize_use_projections: 0 } }),
    ).toStrictEqual(matrix)
  })

  test.each(cases)('%s, and the first events are read from the projection', async (_, query) => {
    const site_id = await siteWith(triangle)
    const plans: string[] = []
    const clickHouse: Pick<ClickHouse, 'query'> = {
      query: async (sql, params) => {
        const { rows } = await database.reader.query<{ explain: string }>(`EXPLAIN ${sql}`, params)
        plans.push(rows.map(({ explain }) => explain).join('\n'))
        return { rows: [], totals: undefined }
      },
    }
    await requestRetention({ site_id, weeks: '3', ...query }, { criteria: buyers, clickHouse })
    expect(plans).toStrictEqual([expect.stringMatching(/ReadFrom\w+ \(user_weeks\)/)])
  })

  test('the environment of the key, unless the request names one', async () => {
    const site_id = await siteWith([
      { user: 'a', at: monday - week, environment: 'dev' },
      { user: 'a', at: monday },
      { user: 'b', at: monday },
    ])
    const sizes = async (query: Record<string, string>) =>
      (await requestRetention({ site_id, weeks: '2', ...query })).cohorts.map(({ size }) => size)
    expect(await sizes({})).toStrictEqual([0, 2])
    expect(await sizes({ environment: 'dev' })).toStrictEqual([1, 0])
    expect(await sizes({ environment: 'all' })).toStrictEqual([1, 1])
  })
})

describe('weeks begin on Monday', () => {
  test('in the zone of the site by default, and are longer or shorter when its clocks change', async () => {
    const site_id = await siteWith([])
    // Clocks went forward on 6 October and back on 6 April.
    const spring = await requestRetention(
      { site_id, weeks: '3', end_date: String(Date.UTC(2024, 9, 10)) },
      { timezone: 'Australia/Adelaide' },
    )
    expect(spring.timezone).toBe('Australia/Adelaide')
    expect(spring.cohorts.map(({ week_start }) => week_start)).toStrictEqual([
      Date.UTC(2024, 8, 22, 14, 30),
      Date.UTC(2024, 8, 29, 14, 30),
      Date.UTC(2024, 9, 6, 13, 30),
    ])
    const year = await requestRetention({
      site_id,
      weeks: '2',
      timezone: 'america/new_york',
      end_date: String(Date.UTC(2025, 0, 6, 5)),
    })
    expect(year.timezone).toBe('America/New_York')
    expect(year.cohorts.map(({ week_start }) => week_start)).toStrictEqual([
      Date.UTC(2024, 11, 30, 5),
      Date.UTC(2025, 0, 6, 5),
    ])
  })

  test('and a last week of 169 hours has its last hour, whichever way its events are read', async () => {
    // Clocks went back on 26 October; all weeks before have 168 hours.
    const late = Date.UTC(2025, 9, 26, 22, 10)
    const site_id = await siteWith([
      { user: 'new', at: late, event_type: 'buy' },
      { user: 'returns', at: Date.UTC(2025, 9, 14) },
      { user: 'returns', at: late, event_type: 'buy' },
    ])
    const query = { site_id, weeks: '3', timezone: 'Europe/Berlin', end_date: String(late + hour / 2) }
    const rows = [
      [0, 0, 0, 0],
      [1, 1, 1],
      [1, 1],
    ]
    expect(numbersOf(await requestRetention(query))).toStrictEqual(rows)
    expect(numbersOf(await requestRetention({ ...query, of: 'visitor' }))).toStrictEqual(rows)
    expect(numbersOf(await requestRetention({ ...query, return_event: 'buy' }))).toStrictEqual([
      [0, 0, 0, 0],
      [1, 0, 1],
      [1, 1],
    ])
  })

  test('to the millisecond in zones of every offset from UTC', async () => {
    const zones = new Map<number, string>()
    for (const zone of ['UTC', 'Etc/GMT+12', ...Intl.supportedValuesOf('timeZone')]) {
      const parts = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' }).formatToParts(monday)
      const [, sign, hours, minutes] =
        /GMT([+-])(\d\d):(\d\d)/.exec(parts.find(({ type }) => type === 'timeZoneName')?.value ?? '') ?? []
      zones.set((sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)), zone)
    }
    expect(zones.size).toBeGreaterThan(30)
    expect([Math.min(...zones.keys()), Math.max(...zones.keys())]).toStrictEqual([-12 * 60, 14 * 60])
    const sites = [...zones].map(([offset, zone]) => ({ zone, site_id: randomUUID(), start: monday - offset * 60_000 }))
    await siteWith(
      sites.flatMap(({ site_id, start }) =>
        [
          ...['at', 'before', 'around', 'sunday', 'monday'].map((user) => ({ user, at: start - 4 * week })),
          { user: 'before', at: start - 2 * week - 1 },
          { user: 'at', at: start - 2 * week },
          { user: 'around', at: start - 2 * week - 1 },
          { user: 'around', at: start - 2 * week },
          // As far from the ends of a week as those of any zone may be from UTC's.
          { user: 'sunday', at: start - week - 26 * hour },
          { user: 'monday', at: start - 2 * week + 26 * hour },
          { user: 'too early', at: start - 4 * week - 1 },
        ].map((visit) => ({ ...visit, site_id })),
      ),
    )
    const settings = { force_optimize_projection_name: 'user_weeks', max_threads: 1 }
    const rows = await Promise.all(
      sites.map(async ({ zone, site_id, start }) => {
        const parameters = { site_id, weeks: '5', timezone: zone, end_date: String(start) }
        return { zone, numbers: numbersOf(await requestRetention(parameters, { settings }))[0] }
      }),
    )
    expect(rows).toStrictEqual(sites.map(({ zone }) => ({ zone, numbers: [5, 5, 2, 4, 0, 0] })))
  })
})

test('deleted events are removed from the projection of weeks', async () => {
  const site_id = await siteWith(triangle)
  const settings = { force_optimize_projection_name: 'user_weeks' }
  expect(numbersOf(await requestRetention({ site_id, weeks: '3' }, { settings }))[0]).toStrictEqual([5, 5, 3, 2])
  await database.owner.command(
    `DELETE FROM events WHERE site_id = {site_id:String} AND (user_id = 'b' OR timestamp = {at:DateTime64(3)})`,
    { params: { site_id, at: (monday - 2 * week) / 1000 }, settings: { lightweight_deletes_sync: '2' } },
  )
  // The first event of user a is a week later now.
  const matrix = await requestRetention({ site_id, weeks: '3' }, { settings })
  expect(numbersOf(matrix)).toStrictEqual([
    [3, 3, 1, 1],
    [1, 1, 1],
    [1, 1],
  ])
  expect(await requestRetention({ site_id, weeks: '3' }, { settings: { optimize_use_projections: 0 } })).toStrictEqual(
    matrix,
  )
})

test('two weeks that share one of the 64 bits are not confused', async () => {
  const site_id = await siteWith([
    { user: 'a', at: monday - 70 * week },
    { user: 'a', at: monday - 5 * week },
    { user: 'b', at: monday - 64 * week },
    { user: 'b', at: monday },
    { user: 'b', at: now + day },
  ])
  const end_date = String(monday - 60 * week)
  const { cohorts } = await requestRetention({ site_id, weeks: '12', end_date })
  expect(cohorts[1]?.retention_by_week.map(({ returning_users }) => returning_users)).toStrictEqual([
    1,
    ...Array<number>(10).fill(0),
  ])
  const { cohorts: year } = await requestRetention({ site_id, weeks: '52' })
  expect(year.map(({ size }) => size)).toStrictEqual(Array<number>(52).fill(0))
})

describe('an invalid request for retention', () => {
  test.each<[Record<string, string | string[]>, string]>([
    [{}, 'Missing required field: site_id'],
    [{ site_id: 's', weeks: '0' }, 'Invalid field: weeks must be an integer from 1 to 52'],
    [{ site_id: 's', weeks: '53' }, 'Invalid field: weeks must be an integer from 1 to 52'],
    [{ site_id: 's', weeks: '1.5' }, 'Invalid field: weeks must be an integer from 1 to 52'],
    [{ site_id: 's', weeks: ['1', '2'] }, 'Invalid field: weeks must be given only once'],
    [{ site_id: 's', mode: 'off' }, 'Invalid field: mode must be one of: on, on_or_after'],
    [{ site_id: 's', timezone: 'Mars/Base' }, 'Invalid field: timezone must be an IANA time zone, e.g. Europe/Berlin'],
    [
      { site_id: 's', end_date: '-1' },
      'Invalid field: end_date must be an integer from 0 to 7258118400000 (Unix milliseconds)',
    ],
    [{ site_id: 's', return_event: 'e'.repeat(65) }, 'Invalid field: return_event exceeds maximum length of 64'],
    [{ site_id: 's', cohort_id: 'c'.repeat(65) }, 'Invalid field: cohort_id exceeds maximum length of 64'],
    [{ site_id: 's', environment: 'test' }, 'Invalid field: environment must be one of: prod, dev, all'],
    [{ site_id: 's', start_date: '1' }, 'Invalid field: start_date is not a known parameter'],
  ])('%j is refused with 400', async (query, message) => {
    await expect(requestRetention(query as Record<string, string>)).rejects.toMatchObject({
      code: badRequestCode(message),
      message,
    })
  })

  test('for a site or a cohort that needs more than one response may read gets 400', async () => {
    const site_id = await siteWith(triangle)
    const settings = { max_rows_to_read: '1' }
    const reason = 'asks for more than one answer may read: ask for fewer conditions or rarer events'
    await expect(requestRetention({ site_id }, { settings })).rejects.toMatchObject({
      code: 'query_too_large',
      message: 'Invalid field: site_id has more users than one answer may count',
    })
    await expect(
      requestRetention({ site_id, cohort_id: 'coh_b' }, { settings, criteria: buyers }),
    ).rejects.toMatchObject({
      code: 'query_too_large',
      message: `Invalid field: cohort_id ${reason}`,
    })
  })
})

test('the earliest and the latest possible end_date are accepted', async () => {
  const site_id = await siteWith(triangle)
  for (const end_date of ['0', '7258118400000']) {
    const { cohorts } = await requestRetention({ site_id, weeks: '52', timezone: 'Australia/Adelaide', end_date })
    expect(cohorts).toHaveLength(52)
  }
})

test('a missing cohort and a site that the key may not read are 404', async () => {
  await expect(requestRetention({ site_id: 's', cohort_id: 'coh_x' })).rejects.toMatchObject({
    code: 'not_found',
    message: 'Cohort not found',
  })
  const { credential } = apiRequest()
  await expect(
    requestRetention({ site_id: 's' }, { credential: { ...credential, siteIds: [] } }),
  ).rejects.toMatchObject({
    code: 'not_found',
    message: 'Site not found',
  })
})
