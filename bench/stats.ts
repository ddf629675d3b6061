import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { metrics } from '@sluice/contracts/stats'
import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import type { ClickHouseRig } from './clickhouse-rig.ts'
import { fillEvents } from './fill-events.ts'
import { median, rounded } from './report.ts'
import { byHand } from './stats-by-hand.ts'
import { measure, startStatsRig } from './stats-rig.ts'

/** Events of the site; the other sites together have the same number. BENCH_EVENTS=5000000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 50_000_000)
const end = Date.UTC(2026, 10, 1)
const day = 86_400_000
const rounds = 11
const groupings = ['', 'day', 'country'] as const

/** Sends a query to the query service over HTTP; resolves to the milliseconds until the response was complete. */
type RunQuery = (query: Readonly<Record<string, string>>, signal?: AbortSignal) => Promise<number>

/**
 * S6, S7, S9 and neighbours, on a table of 100 M events in 180 days with a site of 50 M events and one of 5 M. Measures
 * every metric over HTTP compared with the best known SQL, the small site before and after the table grew tenfold, the
 * big site compared with the small one, the time that the service adds to the SQL, and a small query beside ten large
 * ones.
 */
export async function stats(): Promise<object> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const rig = await startStatsRig(dir, join(dir, 'clickhouse'))
  const { store, clickHouse, key } = rig
  try {
    const runQuery = queryRunner(rig.url, key)
    const began = performance.now()
    await fillEvents(clickHouse, { site: 'medium', events: events / 10, end, days: 180 })
    await fillEvents(clickHouse, { site: 'few', sites: 1_000, events: events / 10, end, days: 180 })
    await store.settle()
    const alone = await measureMetrics(runQuery, 'medium')
    await fillEvents(clickHouse, { site: 'big', events, end, days: 180 })
    await fillEvents(clickHouse, { site: 'many', sites: 1_000, events: (events * 8) / 10, end, days: 180 })
    const filled_seconds = Math.round((performance.now() - began) / 1_000)
    await store.settle()
    const medium = await measureMetrics(runQuery, 'medium')
    const big = await measureMetrics(runQuery, 'big')
    return {
      bars: {
        s6: '1.2 × by hand; p95 of 180 days: counts 100, distinct 300, sessions 1,000 ms; of 30 days 300 ms',
        s7: 'table × 10: 1.3; site × 10: counts 3, all else 8',
        s9: '5 ms',
        neighbour: 3,
      },
      events,
      filled_seconds,
      s6: await compareWithHand(runQuery, store, clickHouse),
      s7: metrics.map((metric, n) => ({
        metric,
        table_10_times: rounded((medium[n] ?? 0) / (alone[n] ?? 1)),
        site_10_times: rounded((big[n] ?? 0) / (medium[n] ?? 1)),
      })),
      s9: await measureOverhead(runQuery, clickHouse),
      neighbour: await measureNeighbours(runQuery, queryRunner(rig.url, await otherKey(rig.url, key))),
    }
  } finally {
    await rig.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

function queryRunner(url: string, key: string): RunQuery {
  return async (query, signal) => {
    const began = performance.now()
    const response = await fetch(`${url}/api/v1/stats?${new URLSearchParams(query).toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
      ...(signal && { signal }),
    })
    const body = await response.text()
    if (response.status !== 200) throw new Error(`${response.status}: ${body}`)
    return performance.now() - began
  }
}

async function otherKey(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/api/v1/settings/keys`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'neighbour', rate_limits: { queries_per_minute: 1_000_000 } }),
  })
  return ((await response.json()) as { data: { key: string } }).data.key
}

function queryOf(site: string, metric: string, days: number, groupBy = ''): Record<string, string> {
  return {
    site_id: site,
    metric,
    // The range begins and ends within a quarter of an hour, and within a day.
    start_date: String(end - days * day + 60_000),
    end_date: String(end - 60_000),
    ...(groupBy === '' ? {} : { group_by: groupBy }),
  }
}

/** Returns the median time of each metric over 180 days, in ms. */
async function measureMetrics(runQuery: RunQuery, site: string): Promise<number[]> {
  const medians: number[] = []
  for (const metric of metrics) medians.push((await measure(() => runQuery(queryOf(site, metric, 180)), rounds)).p50_ms)
  return medians
}

async function compareWithHand(runQuery: RunQuery, store: ClickHouseRig, clickHouse: ClickHouse): Promise<object[]> {
  const answers: object[] = []
  for (const metric of metrics) {
    for (const days of [180, 30]) {
      for (const groupBy of groupings) {
        const query = queryOf('big', metric, days, groupBy)
        const before = await store.read()
        const times = await measure(() => runQuery(query), rounds)
        const after = await store.read()
        const answer = {
          metric,
          days,
          group_by: groupBy,
          ...times,
          million_rows: rounded((after.rows - before.rows) / (rounds + 1) / 1e6),
          mib: Math.round((after.bytes - before.bytes) / (rounds + 1) / 2 ** 20),
        }
        if (groupBy !== '') answers.push(answer)
        else {
          const sql = byHand(metric, 'big', Number(query.start_date), Number(query.end_date))
          const hand = await measure(() => milliseconds(() => clickHouse.query(sql)), rounds)
          answers.push({ ...answer, by_hand_p50_ms: hand.p50_ms, ratio: rounded(times.p50_ms / hand.p50_ms) })
        }
      }
    }
  }
  return answers
}

/** S9: the users of a small site in an hour over HTTP, compared with the SQL alone. */
async function measureOverhead(runQuery: RunQuery, clickHouse: ClickHouse): Promise<object> {
  const [start, metric] = [end - 3_600_000, 'unique_users']
  const query = { site_id: 'few-1', metric, start_date: String(start), end_date: String(end) }
  const sql = byHand('unique_users', 'few-1', start, end)
  const times = { service: [] as number[], sql: [] as number[] }
  for (let round = 0; round < 200; round++) {
    times.service.push(await runQuery(query))
    times.sql.push(await milliseconds(() => clickHouse.query(sql)))
  }
  const [service, alone] = [median(times.service), median(times.sql)]
  return { service_p50_ms: rounded(service, 1), sql_p50_ms: rounded(alone, 1), added_ms: rounded(service - alone, 1) }
}

/** Measures a small query of one client, alone and while another client repeats ten queries over 180 days. */
async function measureNeighbours(runQuery: RunQuery, neighbour: RunQuery): Promise<object> {
  const small = queryOf('few-0', 'unique_sessions', 30)
  const alone = await measure(() => neighbour(small), 51)
  const stop = new AbortController()
  const large = Array.from({ length: 10 }, async (_, n) => {
    const metric = metrics[n % metrics.length] ?? ''
    while (!stop.signal.aborted) await runQuery(queryOf('big', metric, 180, 'day'), stop.signal).catch(() => undefined)
  })
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  const beside = await measure(() => neighbour(small), 51)
  stop.abort()
  await Promise.all(large)
  return { alone, beside, ratio: rounded(beside.p50_ms / alone.p50_ms) }
}

async function milliseconds(call: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await call()
  return performance.now() - began
}
