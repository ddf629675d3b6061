import { randomInt, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { criteriaSchema } from '@sluice/api/conditions'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { cohortAnalysisRoute } from '@sluice/query/analytics/cohort-analysis'
import { retentionRoute } from '@sluice/query/analytics/retention'
import { previewCohortRoute } from '@sluice/query/cohorts/preview-cohort'
import { apiRequest } from '../api-request.ts'
import { patientReader } from '../patient-reader.ts'
import { allSitesKnown, noon } from '../stats-database.ts'
import type { TestStore } from '../test-store.ts'
import {
  expectedAnalysis,
  expectedMatrix,
  expectedPreview,
  type RawCriteria,
  type RawUser,
} from './expected-retention.ts'
import type { RawEvent } from './expected-stats.ts'
import { type Cohort, type Matrix, type Trial, trial } from './retention-generators.ts'

const day = 24 * 3_600_000

let store: TestStore

/** Trials that are checked concurrently: while one waits for ClickHouse, the next is computed. */
const atOnce = 4

/**
 * Tests the answers about cohorts and retention on a store with random events: ten cohorts and three matrices each
 * trial.
 */
export function testRetentionTrials(open: () => Promise<TestStore>, { trialCount }: { trialCount: number }): void {
  beforeAll(async () => {
    store = await open()
  })

  afterAll(async () => {
    await store.drop()
  })

  test(`${trialCount * 10} cohorts and ${trialCount * 3} matrices of random users, zones, criteria and weeks equal those of the oracle`, async () => {
    const seed = randomInt(2 ** 31)
    // All trials are stored at once, which is much faster; only a trial that fails is repeated and shrunk.
    const trials = fc.sample(trial, { numRuns: trialCount, seed }).map(placed)
    await storeTrials(trials)
    for (let first = 0; first < trials.length; first += atOnce) {
      const checked = await Promise.allSettled(trials.slice(first, first + atOnce).map(check))
      for (const [index, result] of checked.entries())
        if (result.status === 'rejected') await shrinkFailure(seed, first + index, result.reason)
    }
    // SQL and oracle would also agree if no result had users, so some results must have users.
    expect(seen.members).toBeGreaterThan(trialCount * 5)
    expect(seen.returning).toBeGreaterThan(trialCount * 5)
  })
}

const seen = { members: 0, returning: 0 }

/** Repeats and shrinks a failed trial. Throws the failure of the smallest one. */
async function shrinkFailure(seed: number, index: number, cause: unknown): Promise<never> {
  const replayed = fc.asyncProperty(trial, async (smaller) => {
    const own = placed(smaller)
    await storeTrials([own])
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

async function storeTrials(trials: readonly PlacedTrial[]): Promise<void> {
  const lines = trials.flatMap(({ events }) =>
    events.map((each) => JSON.stringify({ ...each, received_at: each.timestamp })),
  )
  await store.insert(lines)
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
    await store.command(
      `INSERT INTO users (site_id, environment, user_id, email, name, company, plan, version)
       SELECT u[1], u[2], u[3], u[4], u[5], u[6], u[7], {version:UInt8}
       FROM (SELECT arrayJoin(JSONExtract({rows:String}, 'Array(Array(String))')) AS u)`,
      { version, rows: JSON.stringify(names) },
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
    eventReader: patientReader(withSettings({})),
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
  const { handle } = previewCohortRoute({ ...allSitesKnown(), eventReader: patientReader(withSettings({})) })
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
      eventReader: patientReader(withSettings(settings)),
    }
    return (await retentionRoute(deps).handle(apiRequest({ receivedAt, query }))).data
  }
  // A cohort's members are read from events, without the projection, so the statement would be refused. So would one
  // about visitors, for whom there is no projection. A shard gets two statements, one for each half of the original
  // statement, and one of them needs no projection.
  const forced =
    narrowed || actor === 'visitor' || store.reader.address.cluster !== undefined
      ? {}
      : { force_optimize_projection_name: 'user_weeks' }
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
  const at = Date.now()
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
      store.reader.query(sql, params, { ...options, settings: { ...options?.settings, max_threads: 1, ...settings } }),
  }
}
