import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Criteria } from '@sluice/contracts/conditions'
import type { RetentionMatrix } from '@sluice/contracts/retention'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import { cohortAnalysisRoute } from '@sluice/query/analytics/cohort-analysis'
import { retentionRoute } from '@sluice/query/analytics/retention'
import { apiRequest } from '../tests/support/api-request.ts'
import { type ClickHouseRig, startClickHouseRig } from './clickhouse-rig.ts'
import { fillEvents } from './fill-events.ts'
import { median, rounded } from './report.ts'

/** Events of one site in 180 days. BENCH_EVENTS=2000000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 50_000_000)
const end = Date.UTC(2026, 10, 1)
const site = 'big'
/** Number of rounds; the first one is not counted, because the caches are empty. */
const rounds = 11
const zones = ['UTC', 'Australia/Adelaide'] as const

/**
 * S8: the retention matrix of 12 weeks of a site with 50 M events, in UTC and in a zone of half hours with summer time,
 * compared with a plain and an optimised self-join of the events; and other queries on the weeks of the site.
 */
export async function retention(): Promise<object> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const rig = await startClickHouseRig(dir)
  try {
    const { clickHouse, url } = await rig.database('sluice')
    const began = performance.now()
    await fillEvents(clickHouse, { site, events, end, days: 180 })
    const filled_seconds = Math.round((performance.now() - began) / 1000)
    await rig.settle()
    const reader = openClickHouse(url)
    const results: object[] = []
    for (const timezone of zones) {
      const matrix = () => queryMatrix(reader, { timezone })
      const { week_start: from = 0 } = (await matrix()).cohorts[0] ?? {}
      const [asked, reference, optimised] = await measureInTurns(rig, [
        matrix,
        () => selfJoin(reader, { from, timezone, joined: '' }),
        () => selfJoin(reader, { from, timezone, joined: onlyTheseWeeks }),
      ])
      const pairs = JSON.stringify(pairsOf(asked.answer))
      results.push({
        asked: 'matrix',
        timezone,
        ...asked.figures,
        self_join: reference.figures,
        ratio: rounded(asked.figures.p50_ms / reference.figures.p50_ms, 3),
        self_join_of_these_weeks: optimised.figures,
        ratio_to_that: rounded(asked.figures.p50_ms / optimised.figures.p50_ms, 3),
        answers_equal: [reference, optimised].every(({ answer }) => JSON.stringify(answer) === pairs),
      })
    }
    for (const [asked, runQuery] of Object.entries(others)) {
      const [{ figures }] = await measureInTurns(rig, [() => runQuery(reader)])
      results.push({ asked, ...figures })
    }
    await reader.close()
    return { events, filled_seconds, results }
  } finally {
    await rig.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

const adelaide = { timezone: 'Australia/Adelaide' }
const others: Readonly<Record<string, (reader: ClickHouse) => Promise<unknown>>> = {
  'matrix of 52 weeks, Adelaide': (reader) => queryMatrix(reader, { ...adelaide, weeks: '52' }),
  'matrix on_or_after, Adelaide': (reader) => queryMatrix(reader, { ...adelaide, mode: 'on_or_after' }),
  'matrix of return_event, Adelaide': (reader) => queryMatrix(reader, { ...adelaide, return_event: 'purchase' }),
  'matrix of a cohort, Adelaide': (reader) => queryMatrix(reader, { ...adelaide, cohort_id: 'coh_1' }),
  'cohort, 12 weeks': async (reader) => {
    const { handle } = cohortAnalysisRoute({ ...stores, eventReader: queryReader(reader) })
    return handle(apiRequest({ receivedAt: end, query: { site_id: site, cohort_id: 'coh_1' } }))
  },
}

/** Criteria of the users that ever made a purchase. */
const buyers: Criteria = {
  type: 'and',
  conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }],
}
const stores = {
  readCompleteUntil: () => end,
  sites: { find: () => Promise.resolve({ settings: { timezone: 'UTC', conversion_event: null } }) },
  cohorts: {
    find: (cohortId: string) =>
      Promise.resolve({
        cohortId,
        siteId: site,
        settings: { name: 'buyers', description: null, criteria: buyers },
        createdAt: end,
        updatedAt: end,
      }),
  },
}

async function queryMatrix(reader: ClickHouse, query: Readonly<Record<string, string>>): Promise<RetentionMatrix> {
  const { handle } = retentionRoute({ ...stores, eventReader: queryReader(reader) })
  const { data } = await handle(apiRequest({ receivedAt: end, query: { site_id: site, ...query } }))
  return data as RetentionMatrix
}

/**
 * [week of the first event, week, users], ascending, where there are users; weeks are numbered from the matrix's first.
 */
type Pair = [first: number, week: number, users: number]

function pairsOf({ cohorts }: RetentionMatrix): Pair[] {
  return cohorts.flatMap(({ retention_by_week: rows }, first) =>
    rows
      .filter(({ returning_users }) => returning_users > 0)
      .map(({ week, returning_users }): Pair => [first, first + week, returning_users]),
  )
}

/** The additional condition of the optimised self-join. */
const onlyTheseWeeks = `AND timestamp >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`

/**
 * Joins each user's first week to the weeks of their events: of all events, or of those that meet the condition
 * `joined`. The smaller side of the join is held in memory.
 */
async function selfJoin(
  reader: ClickHouse,
  { from, timezone, joined }: { from: number; timezone: string; joined: string },
): Promise<Pair[]> {
  const { rows } = await reader.query<{ pair: Pair }>(
    `
SELECT [dateDiff('week', from, first), dateDiff('week', from, week), uniqExact(user_id)] AS pair,
    toStartOfWeek(fromUnixTimestamp64Milli({from:Int64}, {zone:String}), 1, {zone:String}) AS from
FROM
(
    SELECT user_id, toStartOfWeek(timestamp, 1, {zone:String}) AS week
    FROM events
    WHERE site_id = {site:String} AND environment = 'prod' AND user_id != '' ${joined}
) AS visits
INNER JOIN
(
    SELECT user_id, toStartOfWeek(min(timestamp), 1, {zone:String}) AS first
    FROM events
    WHERE site_id = {site:String} AND environment = 'prod' AND user_id != ''
    GROUP BY user_id
    ${joined === '' ? '' : `HAVING min(timestamp) >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`}
) AS firsts USING (user_id)
GROUP BY first, week
ORDER BY first, week`,
    { site, zone: timezone, from },
    { settings: { optimize_use_projections: 0 } },
  )
  return rows.map(({ pair }) => pair).filter(([first]) => first >= 0)
}

interface Figures {
  p50_ms: number
  p95_ms: number
  read_rows: number
  read_mib: number
}

interface Timed<T> {
  answer: T
  figures: Figures
}

/** Runs the queries in turn, round by round, so that other work of the machine affects all of them alike. */
async function measureInTurns<T extends readonly (() => Promise<unknown>)[]>(
  rig: ClickHouseRig,
  queries: readonly [...T],
): Promise<{ [Index in keyof T]: Timed<Awaited<ReturnType<T[Index]>>> }> {
  const turns: { answer: unknown; ms: number; rows: number; bytes: number }[][] = queries.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [index, runQuery] of queries.entries()) {
      const before = await rig.read()
      const began = performance.now()
      const answer = await runQuery()
      const ms = performance.now() - began
      const after = await rig.read()
      if (round > 0)
        turns[index]?.push({ answer, ms, rows: after.rows - before.rows, bytes: after.bytes - before.bytes })
    }
  }
  return turns.map((measurements) => {
    const sorted = measurements.map(({ ms }) => ms).sort((a, b) => a - b)
    return {
      answer: measurements[0]?.answer,
      figures: {
        p50_ms: rounded(median(sorted), 0),
        p95_ms: rounded(sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0, 0),
        read_rows: median(measurements.map(({ rows }) => rows)),
        read_mib: rounded(median(measurements.map(({ bytes }) => bytes)) / 2 ** 20, 1),
      },
    }
  }) as { [Index in keyof T]: Timed<Awaited<ReturnType<T[Index]>>> }
}
