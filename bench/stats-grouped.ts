import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StatsBatchResult } from '@sluice/contracts/stats-batch'
import { fillEvents } from './fill-events.ts'
import { rounded } from './report.ts'
import { measure, startStatsRig, type StatsRig } from './stats-rig.ts'

/** Events of the one site, in 180 days. */
const events = Number(process.env.BENCH_EVENTS ?? 50_000_000)
/** A folder that keeps the events for the next run; by default they are stored anew each time. */
const keptDir = process.env.BENCH_DATA
const end = Date.UTC(2026, 10, 1)
const day = 86_400_000
const site_id = 'big'
const grouped = [
  'unique_users',
  'unique_sessions',
  'visitors',
  'avg_session_duration',
  'bounce_rate',
  'conversion_rate',
]
const panels = ['path', 'referrer_host', 'country', 'device_type', 'event_type', 'properties.plan']

/**
 * Distinct counts and metrics of sessions of 50 M events over HTTP, whole, by day and by country, and the first view of
 * a dashboard as one batch: milliseconds, CPU seconds of ClickHouse and rows read.
 */
export async function statsGrouped(): Promise<object> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const rig = await startStatsRig(dir, keptDir ?? join(dir, 'clickhouse'))
  try {
    const { rows } = await rig.clickHouse.query<{ stored: number }>('SELECT count() AS stored FROM events')
    if (rows[0]?.stored === 0) await fillEvents(rig.clickHouse, { site: site_id, events, end, days: 180 })
    await rig.store.settle()
    const answers: object[] = []
    for (const days of [180, 30]) {
      for (const metric of grouped) {
        for (const group_by of [undefined, 'day', 'country']) {
          const query = { site_id, metric, ...range(days), ...(group_by && { group_by }) }
          answers.push({ metric, days, group_by, ...(await measureBatch(rig, [query], 11)) })
        }
      }
    }
    const views: object[] = []
    for (const days of [28, 180]) views.push({ days, ...(await measureBatch(rig, firstView(days), 5)) })
    return { events, answers, first_view: views }
  } finally {
    await rig.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

/** The range begins and ends within a quarter of an hour, and within a day. */
function range(days: number): { start_date: number; end_date: number } {
  return { start_date: end - days * day + 60_000, end_date: end - 60_000 }
}

/** What a dashboard asks when it is opened, with the period before. */
function firstView(days: number): object[] {
  const asked = { site_id, ...range(days), compare: 'previous_period' }
  return [
    ...['visitors', 'unique_sessions', 'bounce_rate', 'avg_session_duration', 'conversion_rate'].map((metric) => ({
      ...asked,
      metric,
    })),
    { ...asked, metric: 'event_count', group_by: 'day' },
    ...panels.map((group_by) => ({ ...asked, metric: 'visitors', group_by, limit: 10 })),
  ]
}

async function measureBatch({ url, key, store }: StatsRig, queries: object[], times: number): Promise<object> {
  const send = async (): Promise<number> => {
    const began = performance.now()
    const response = await fetch(`${url}/api/v1/stats/batch`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ queries }),
    })
    const body = (await response.json()) as { data?: StatsBatchResult }
    if (!body.data?.results.every(({ success }) => success)) throw new Error(JSON.stringify(body))
    return performance.now() - began
  }
  const before = { cpu: await store.cpuSeconds(), rows: (await store.read()).rows }
  const taken = await measure(send, times)
  const each = (total: number): number => rounded(total / (times + 1))
  return {
    ...taken,
    cpu_s: each((await store.cpuSeconds()) - before.cpu),
    million_rows: each(((await store.read()).rows - before.rows) / 1e6),
  }
}
