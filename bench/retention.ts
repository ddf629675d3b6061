import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Criteria } from '@sluice/contracts/conditions'
import type { RetentionMatrix } from '@sluice/contracts/retention'
import { type ClickHouse, openClickHouse } from '@sluice/clickhouse/client'
import { cohortAnalysisHandler } from '@sluice/query/cohort-analysis/handler'
import { retentionHandler } from '@sluice/query/retention/handler'
import { apiRequest } from '../tests/api-request.ts'
import { type ClickHouseRig, startClickHouseRig } from './clickhouse-rig.ts'
import { fillEvents } from './fill-events.ts'
import { median, rounded } from './report.ts'

/** Of one site in 180 days. BENCH_EVENTS=2000000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 50_000_000)
const end = Date.UTC(2026, 10, 1)
const site = 'big'
/** The first is not counted: it finds nothing in memory. */
const rounds = 11
const zones = ['UTC', 'Australia/Adelaide'] as const

/**
 * S8: the retention matrix of 12 weeks of a site of 50 M events, in UTC and in a zone of half hours with summer time,
 * against a self-join of its events, plain and with care; and what else may be asked of its weeks.
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
      const matrix = () => askMatrix(reader, { timezone })
      const { week_start: from = 0 } = (await matrix()).cohorts[0] ?? {}
      const [asked, reference, frugal] = await inTurns(rig, [
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
        self_join_of_these_weeks: frugal.figures,
        ratio_to_that: rounded(asked.figures.p50_ms / frugal.figures.p50_ms, 3),
        answers_equal: [reference, frugal].every(({ answer }) => JSON.stringify(answer) === pairs),
      })
    }
    for (const [asked, ask] of Object.entries(others)) {
      const [{ figures }] = await inTurns(rig, [() => ask(reader)])
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
  'matrix of 52 weeks, Adelaide': (reader) => askMatrix(reader, { ...adelaide, weeks: '52' }),
  'matrix on_or_after, Adelaide': (reader) => askMatrix(reader, { ...adelaide, mode: 'on_or_after' }),
  'matrix of return_event, Adelaide': (reader) => askMatrix(reader, { ...adelaide, return_event: 'purchase' }),
  'matrix of a cohort, Adelaide': (reader) => askMatrix(reader, { ...adelaide, cohort_id: 'coh_1' }),
  'cohort, 12 weeks': async (reader) => {
    const handle = cohortAnalysisHandler({ ...stores, clickHouse: reader })
    return handle(apiRequest({ receivedAt: end, query: { site_id: site, cohort_id: 'coh_1' } }))
  },
}

/** Who ever bought. */
const buyers: Criteria = {
  type: 'and',
  conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }],
}
const stores = {
  sites: { find: () => Promise.resolve({ settings: { timezone: 'UTC', conversion_event: null } }) },
  cohorts: {
    find: (cohortId: string) =>
      Promise.resolve({
        cohortId,
        siteId: site,
        settings: { name: 'buyers', description: null, criteria: buyers },
        createdAt: new Date(end),
        updatedAt: new Date(end),
      }),
  },
}

async function askMatrix(reader: ClickHouse, query: Readonly<Record<string, string>>): Promise<RetentionMatrix> {
  const handle = retentionHandler({ ...stores, clickHouse: reader })
  const { data } = await handle(apiRequest({ receivedAt: end, query: { site_id: site, ...query } }))
  return data as RetentionMatrix
}

/** [week of the first event, week, users], ascending, where there are users; weeks are numbered from the matrix's first. */
type Pair = [first: number, week: number, users: number]

function pairsOf({ cohorts }: RetentionMatrix): Pair[] {
  return cohorts.flatMap(({ retention_by_week: rows }, first) =>
    rows
      .filter(({ returning_users }) => returning_users > 0)
      .map(({ week, returning_users }): Pair => [first, first + week, returning_users]),
  )
}

/** What whoever writes it with care leaves out of the join. */
const onlyTheseWeeks = `AND timestamp >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`

/**
 * Each user's first week, joined to the weeks of their events: of all of them, or of those that `joined` says. The
 * smaller side is the one that is held in memory.
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

/** Asks each in turn, round by round, so that what else the machine does meets all of them. */
async function inTurns<T extends readonly (() => Promise<unknown>)[]>(
  rig: ClickHouseRig,
  asks: readonly [...T],
): Promise<{ [Index in keyof T]: Timed<Awaited<ReturnType<T[Index]>>> }> {
  const turns: { answer: unknown; ms: number; rows: number; bytes: number }[][] = asks.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [index, ask] of asks.entries()) {
      const before = await rig.read()
      const began = performance.now()
      const answer = await ask()
      const ms = performance.now() - began
      const after = await rig.read()
      if (round > 0)
        turns[index]?.push({ answer, ms, rows: after.rows - before.rows, bytes: after.bytes - before.bytes })
    }
  }
  return turns.map((own) => {
    const sorted = own.map(({ ms }) => ms).sort((a, b) => a - b)
    return {
      answer: own[0]?.answer,
      figures: {
        p50_ms: rounded(median(sorted), 0),
        p95_ms: rounded(sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0, 0),
        read_rows: median(own.map(({ rows }) => rows)),
        read_mib: rounded(median(own.map(({ bytes }) => bytes)) / 2 ** 20, 1),
      },
    }
  }) as { [Index in keyof T]: Timed<Awaited<ReturnType<T[Index]>>> }
}
