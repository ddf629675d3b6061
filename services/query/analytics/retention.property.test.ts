import { randomInt, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { criteriaSchema } from '@sluice/api/conditions'
import { operators } from '@sluice/contracts/conditions'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/client'
import { type EventInserter, openEventInserter } from '@sluice/event-store/insert/insert-events'
import { migrateClickHouse } from '@sluice/event-store/migrate'
import { queryRunners } from '@sluice/event-store/query-runner'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { type TestClickHouse, testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import {
  expectedAnalysis,
  expectedMatrix,
  expectedPreview,
  type RawCriteria,
  type RawMatrix,
  type RawUser,
} from '../../../tests/support/oracle/expected-retention.ts'
import type { RawEvent } from '../../../tests/support/oracle/expected-stats.ts'
import type { RawCondition } from '../../../tests/support/oracle/matches-condition.ts'
import { allSitesKnown, noon } from '../../../tests/support/stats-database.ts'
import { previewCohortRoute } from '../cohorts/preview-cohort.ts'
import { cohortAnalysisRoute } from './cohort-analysis.ts'
import { retentionRoute } from './retention.ts'

const hour = 3_600_000
const day = 24 * hour
const week = 7 * day

let database: TestClickHouse
let clickHouse: ClickHouse
let owner: ClickHouse
let inserter: EventInserter

beforeAll(async () => {
  database = testClickHouse()
  await migrateClickHouse(database.url)
  clickHouse = openClickHouse(database.readerUrl)
  owner = openClickHouse(database.url)
  inserter = openEventInserter(database.url)
})

afterAll(async () => {
  await inserter.close()
  await clickHouse.close()
  await owner.close()
  await database.drop()
})

/** A Monday 0:00 of the zone; events and requests lie around it and around other Mondays. */
const places: readonly (readonly [zone: string, monday: number])[] = [
  ['UTC', Date.UTC(2025, 0, 6)],
  ['UTC', Date.UTC(2024, 2, 4)],
  // Zones ahead of UTC, at changes of the year and of clocks.
  ['Australia/Adelaide', Date.UTC(2024, 11, 29, 13, 30)],
  ['Australia/Adelaide', Date.UTC(2024, 9, 6, 13, 30)],
  ['Europe/Berlin', Date.UTC(2024, 2, 31, 22)],
  ['Europe/London', Date.UTC(2024, 10, 4)],
  ['Asia/Kathmandu', Date.UTC(2024, 11, 29, 18, 15)],
  ['Pacific/Kiritimati', Date.UTC(2024, 11, 29, 10)],
  // Zones behind UTC.
  ['America/New_York', Date.UTC(2024, 10, 4, 5)],
  ['America/St_Johns', Date.UTC(2024, 2, 11, 2, 30)],
  ['Etc/GMT+12', Date.UTC(2024, 11, 30, 12)],
  // A zone that crossed the date line: two weeks earlier, a week lacked a day.
  ['Pacific/Apia', Date.UTC(2012, 0, 15, 10)],
  ['Pacific/Apia', Date.UTC(2012, 0, 15, 10)],
]

/** Weeks between an event and the origin: the last ones, those of a year, and those that share a bit with them. */
const near = [0, 0, 0, -1, -1, -1, -2, -2, -3, -3, -4, -5, -8]
const far = [...near, -11, -12, -13, -26, -51, -52, -53, -62, -63, -64, -65, -66, -70]

/** Times next to a possible begin of a week, to the millisecond, in zones of full and half hours, or any time. */
const offset = fc.oneof(
  fc.constantFrom(0, 0, -1, 1),
  fc
    .tuple(fc.integer({ min: -28, max: 28 }), fc.constantFrom(-1, 0, 1))
    .map(([halves, ms]) => (halves * hour) / 2 + ms),
  fc.integer({ min: 0, max: week - 1 }),
)

const moment = (distances: readonly number[]) =>
  fc.tuple(fc.constantFrom(...distances), offset).map(([weeks, ms]) => weeks * week + ms)

const userId = fc.constantFrom('', 'a', 'b', 'c', 'd', "e'", 'f%', 'g\\')
const types = ['view', 'view', 'purchase', 'sign-up']

const eventsAt = (distances: readonly number[]) =>
  fc.array(
    fc.record(
      {
        environment: fc.constantFrom('prod', 'prod', 'prod', 'dev'),
        event_type: fc.constantFrom(...types),
        timestamp: moment(distances),
        user_id: userId,
        anonymous_id: fc.constantFrom('', 'a', 'y', 'z'),
        session_id: fc.constantFrom('', 's', 'a'),
        country: fc.constantFrom('DE', 'FR'),
        url: fc.constantFrom('https://a.example/x', 'https://a.example/y?z', '/x'),
        properties: fc.record(
          { plan: fc.constantFrom('pro', 'free', ''), n: fc.constantFrom('1', '10', '9', 'x') },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: ['environment', 'event_type', 'timestamp', 'user_id'] },
    ),
    { minLength: 10, maxLength: 40, size: 'max' },
  )

const user = fc.record(
  {
    environment: fc.constantFrom('prod', 'prod', 'dev'),
    user_id: userId.filter((id) => id !== ''),
    email: fc.constantFrom('a@x.example', "o'neil@y.example", ''),
    name: fc.constantFrom('Ada', '1'),
    company: fc.constantFrom('x', '10'),
    plan: fc.constantFrom('pro', 'free'),
  },
  { requiredKeys: ['environment', 'user_id'] },
)

/** Values that fields hold, and similar ones. */
const values: Readonly<Record<string, readonly string[]>> = {
  event_type: ['view', 'purchase', 'sign-up', 'sign'],
  country: ['DE', 'fr', 'D'],
  url: ['https://a.example/x', '/x', 'z', 'example'],
  path: ['/x', '/y', '/'],
  user_id: ['a', "e'", 'f%', 'g\\', '%'],
  'properties.plan': ['pro', 'free', 'p'],
  'properties.n': ['1', '10', '9', 'x'],
  'user.plan': ['pro', 'free', 'p'],
  'user.company': ['x', '10', '1'],
  email: ['a@x.example', "o'neil", '.example'],
  name: ['Ada', '1'],
}

const condition: fc.Arbitrary<RawCondition> = fc
  .tuple(fc.constantFrom(...Object.keys(values)), fc.constantFrom(...operators))
  .chain(([property, operator]): fc.Arbitrary<RawCondition> => {
    const value = fc.constantFrom(...(values[property] ?? []))
    const base = { property, operator }
    switch (operator) {
      case 'exists':
      case 'not_exists':
        return fc.constant(base)
      case 'in':
      case 'not_in':
        return fc.array(value, { minLength: 1, maxLength: 3 }).map((list) => ({ ...base, value: list }))
      case 'matches':
        return fc.constantFrom('^a', 'x$', '[0-9]', 'p(ro|ur)', '.').map((pattern) => ({ ...base, value: pattern }))
      case 'greater_than':
      case 'greater_than_or_equal':
      case 'less_than':
      case 'less_than_or_equal':
        return fc.constantFrom(9, '9.5', 1).map((number) => ({ ...base, value: number }))
      case 'equals':
      case 'not_equals':
      case 'contains':
      case 'not_contains':
      case 'starts_with':
      case 'ends_with':
        return value.map((text) => ({ ...base, value: text }))
    }
  })

const nested: fc.Arbitrary<RawCondition> = fc.record({
  type: fc.constantFrom('and', 'or'),
  conditions: fc.array(condition, { minLength: 1, maxLength: 2 }),
})

const criteria: fc.Arbitrary<RawCriteria> = fc.record(
  {
    type: fc.constantFrom('and', 'or'),
    scope: fc.constantFrom('event', 'user', 'user'),
    conditions: fc.array(fc.oneof({ arbitrary: condition, weight: 4 }, { arbitrary: nested, weight: 1 }), {
      minLength: 1,
      maxLength: 3,
    }),
  },
  { requiredKeys: ['type', 'conditions'] },
)

/** The time of the request: events may be a day later, as the clocks of clients may be. */
const present = fc.integer({ min: 0, max: week - 1 })
const environment = fc.constantFrom('prod', 'prod', 'dev', 'all')

interface Cohort {
  criteria: RawCriteria
  weeks: number
  environment: 'prod' | 'dev' | 'all'
}

const cohort: fc.Arbitrary<Cohort> = fc.record({
  criteria,
  weeks: fc.constantFrom(1, 2, 3, 5, 12, 52),
  environment,
})

type Matrix = Omit<RawMatrix, 'site_id' | 'now' | 'zone'> & { zone: string; end_date?: number }

const matrix: fc.Arbitrary<Matrix> = fc
  .tuple(
    fc.record({
      weeks: fc.constantFrom(1, 2, 5, 12, 12, 13, 52),
      mode: fc.constantFrom('on', 'on', 'on_or_after'),
      of: fc.constantFrom('user', 'user', 'visitor'),
      environment,
      // Mostly empty, which stands for the zone of the place.
      zone: fc.option(fc.constantFrom('UTC', 'Australia/Adelaide', 'America/New_York', 'Pacific/Apia'), {
        freq: 4,
        nil: '',
      }),
    }),
    fc.option(criteria, { nil: undefined, freq: 1 }),
    fc.option(fc.constantFrom(...types), { nil: undefined, freq: 1 }),
    fc.oneof({ arbitrary: fc.constant(undefined), weight: 2 }, { arbitrary: moment(far), weight: 1 }),
  )
  .map(([drawn, narrowed, return_event, end_date]) => ({
    ...drawn,
    ...(narrowed && { criteria: narrowed }),
    ...(return_event !== undefined && { return_event }),
    ...(end_date !== undefined && { end_date }),
  }))

interface Trial {
  place: (typeof places)[number]
  events: (Omit<RawEvent, 'site_id' | 'event_id'> & { timestamp: number })[]
  users: Omit<RawUser, 'site_id'>[]
  present: number
  cohorts: Cohort[]
  matrices: Matrix[]
}

const trial: fc.Arbitrary<Trial> = fc.record({
  place: fc.constantFrom(...places),
  events: fc.oneof({ arbitrary: eventsAt(near), weight: 2 }, { arbitrary: eventsAt(far), weight: 1 }),
  users: fc.uniqueArray(user, {
    maxLength: 6,
    selector: ({ environment: of, user_id }) => `${of} ${user_id}`,
  }),
  present,
  cohorts: fc.array(cohort, { minLength: 10, maxLength: 10 }),
  matrices: fc.array(matrix, { minLength: 3, maxLength: 3 }),
})

/** 1,000 cohorts and 300 matrices. */
const trialCount = 100
/** Trials that are checked concurrently: while one waits for ClickHouse, the next is computed. */
const atOnce = 4

test('1,000 cohorts and 300 matrices of random users, zones, criteria and weeks equal those of the oracle', async () => {
  const seed = randomInt(2 ** 31)
  // All trials are stored at once, which is much faster; only a trial that fails is repeated and shrunk.
  const trials = fc.sample(trial, { numRuns: trialCount, seed }).map(placed)
  await store(trials)
  for (let first = 0; first < trials.length; first += atOnce) {
    const checked = await Promise.allSettled(trials.slice(first, first + atOnce).map(check))
    for (const [index, result] of checked.entries())
      if (result.status === 'rejected') await shrinkFailure(seed, first + index, result.reason)
  }
  // Both sides would also agree on results without users: some must have users.
  expect(seen.members).toBeGreaterThan(trialCount * 5)
  expect(seen.returning).toBeGreaterThan(trialCount * 5)
})

const seen = { members: 0, returning: 0 }

/** Repeats and shrinks a failed trial. Throws the failure of the smallest one. */
async function shrinkFailure(seed: number, index: number, cause: unknown): Promise<never> {
  const replayed = fc.asyncProperty(trial, async (smaller) => {
    const own = placed(smaller)
    await store([own])
    await check(own)
  })
  await fc.assert(replayed, { seed, path: String(index), numRuns: 1, interruptAfterTimeLimit: 30_000 })
  throw new Error(`trial ${index} of seed ${seed} failed once, and not again`, { cause })
}

interface PlacedTrial {
  siteId: string
  zone: string
  receivedAt: number
  events: RawEvent[]
  users: RawUser[]
  cohorts: Cohort[]
  matrices: Matrix[]
}

/** Moves a trial to its place, on a site of its own, so that all trials can share one table. */
function placed({ place: [zone, monday], events, users, cohorts, matrices, ...at }: Trial): PlacedTrial {
  const siteId = randomUUID()
  const receivedAt = monday + at.present
  return {
    siteId,
    zone,
    receivedAt,
    // No event is later than a day from now.
    events: events.map((drawn, index) => ({
      ...drawn,
      site_id: siteId,
      event_id: String(index),
      timestamp: Math.min(monday + drawn.timestamp, receivedAt + day),
    })),
    users: users.map((drawn) => ({ ...drawn, site_id: siteId })),
    cohorts,
    matrices: matrices.map(({ end_date, ...matrix }) => ({
      ...matrix,
      zone: matrix.zone === '' ? zone : matrix.zone,
      ...(end_date === undefined ? {} : { end_date: monday + end_date }),
    })),
  }
}

async function store(trials: readonly PlacedTrial[]): Promise<void> {
  const lines = trials.flatMap(({ events }) =>
    events.map((each) => JSON.stringify({ ...each, received_at: each.timestamp })),
  )
  const batch = { payloads: [Buffer.from(lines.join('\n'))], hasUndated: false }
  await inserter.insert(batch, { queryId: randomUUID(), replaceRunning: false, timeoutMs: 20_000 })
  const users = trials.flatMap((each) => each.users)
  if (users.length === 0) return
  const rows = users.map((each) =>
    [each.site_id, each.environment, each.user_id, each.email, each.name, each.company, each.plan].map(
      (field) => field ?? '',
    ),
  )
  // An earlier import of a user no longer counts.
  for (const [version, names] of [
    [1, rows.map((row) => [...row.slice(0, 3), 'old', 'old', 'old', 'old'])],
    [2, rows],
  ] as const) {
    await owner.command(
      `INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version)
       SELECT u[1], u[2], u[3], u[4], u[5], u[6], u[7], {version:UInt8}
       FROM (SELECT arrayJoin(JSONExtract({rows:String}, 'Array(Array(String))')) AS u)`,
      { params: { version, rows: JSON.stringify(names) } },
    )
  }
}

async function check(own: PlacedTrial): Promise<void> {
  await Promise.all([
    ...own.cohorts.map((cohort) => checkCohort(own, cohort)),
    ...own.cohorts.slice(0, 3).map((cohort) => checkPreview(own, cohort)),
    ...own.matrices.map((matrix) => checkMatrix(own, matrix)),
  ])
}

async function checkCohort(own: PlacedTrial, cohort: Cohort): Promise<void> {
  const { siteId: site_id, receivedAt } = own
  const { criteria: described, weeks, environment: of } = cohort
  const query = { site_id, cohort_id: 'coh_1', weeks: String(weeks), environment: of }
  const { handle } = cohortAnalysisRoute({
    ...allSitesKnown(),
    cohorts: cohortsOf(described),
    eventReader: queryRunners(withSettings({})),
  })
  const { data } = await handle(apiRequest({ receivedAt, query }))
  const expected = expectedAnalysis(own, { site_id, environment: of, now: receivedAt }, described, weeks)
  seen.members += expected.size
  expect({ cohort, data }).toStrictEqual({
    cohort,
    data: { cohort_id: 'coh_1', site_id, cohort_name: 'drawn', ...expected, complete_until: noon },
  })
}

async function checkPreview({ siteId: site_id, receivedAt, ...own }: PlacedTrial, cohort: Cohort): Promise<void> {
  const { criteria: described, environment: of } = cohort
  const sent = JSON.stringify({ site_id, criteria: described, environment: of })
  const { handle } = previewCohortRoute({ ...allSitesKnown(), eventReader: queryRunners(withSettings({})) })
  const { data } = await handle(
    apiRequest({ receivedAt, body: { bytes: Buffer.from(sent), type: 'application/json' } }),
  )
  const expected = expectedPreview(own, { site_id, environment: of, now: receivedAt }, described)
  expect({ cohort, data }).toStrictEqual({ cohort, data: { ...expected, complete_until: noon } })
}

async function checkMatrix(own: PlacedTrial, matrix: Matrix): Promise<void> {
  const { siteId, receivedAt } = own
  const { weeks, zone, mode, of: actor = 'user', return_event, environment: of, end_date, criteria: narrowed } = matrix
  const query: Record<string, string> = {
    site_id: siteId,
    weeks: String(weeks),
    timezone: zone,
    mode,
    of: actor,
    environment: of,
    ...(return_event === undefined ? {} : { return_event }),
    ...(end_date === undefined ? {} : { end_date: String(end_date) }),
    ...(narrowed && { cohort_id: 'coh_1' }),
  }
  const requestMatrix = async (settings: Settings): Promise<unknown> => {
    const deps = {
      ...allSitesKnown(),
      cohorts: cohortsOf(narrowed ?? anybody),
      eventReader: queryRunners(withSettings(settings)),
    }
    return (await retentionRoute(deps).handle(apiRequest({ receivedAt, query }))).data
  }
  // The members of a cohort are read as well, which cannot use the projection and would be refused. Visitors have none.
  const forced = narrowed || actor === 'visitor' ? {} : { force_optimize_projection_name: 'user_weeks' }
  const [fromProjection, fromEvents] = await Promise.all([
    requestMatrix(forced),
    requestMatrix({ optimize_use_projections: 0 }),
  ])
  const rawMatrix = { ...matrix, site_id: siteId, now: end_date ?? receivedAt, zone }
  const { cohorts, average } = expectedMatrix(own, rawMatrix)
  seen.returning += average.reduce((sum, { returning_users }) => sum + returning_users, 0)
  const expected = { site_id: siteId, weeks, timezone: zone, cohorts, average, complete_until: noon }
  expect({ matrix, fromProjection, fromEvents }).toStrictEqual({
    matrix,
    fromProjection: expected,
    fromEvents: expected,
  })
}

const anybody: RawCriteria = { type: 'and', conditions: [{ property: 'user_id', operator: 'exists' }] }

/** A store with one cohort, whose criteria are read as those of a request are. */
function cohortsOf(criteria: RawCriteria) {
  const read = criteriaSchema.validate(criteria, { convert: false })
  if (read.error) throw read.error
  const at = new Date()
  const settings = { name: 'drawn', description: null, criteria: read.value }
  return {
    find: (cohortId: string, siteIds: readonly string[] | null) =>
      Promise.resolve({ cohortId, siteId: siteIds?.[0] ?? '', settings, createdAt: at, updatedAt: at }),
  }
}

type Settings = Readonly<Record<string, string | number>>

/** One thread is faster for few rows. */
function withSettings(settings: Settings): Pick<ClickHouse, 'query'> {
  return {
    query: (sql, params, options) =>
      clickHouse.query(sql, params, { ...options, settings: { ...options?.settings, max_threads: 1, ...settings } }),
  }
}
