import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { metrics } from '@sluice/contracts/stats'
import { type ClickHouse, openClickHouse } from '@sluice/clickhouse/client'
import { statsHandler } from '@sluice/query/stats/handler'
import { apiRequest } from '../tests/api-request.ts'
import { startClickHouseRig } from './clickhouse-rig.ts'
import { fillEvents } from './fill-events.ts'
import { median, rounded } from './report.ts'

/** Of the site; as many again belong to a thousand others. BENCH_EVENTS=5000000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 50_000_000)
const end = Date.UTC(2026, 10, 1)
const day = 86_400_000
const rounds = 11
const ranges = { '180 days': 180, '30 days': 30 }
const groupings = [undefined, 'day', 'country'] as const

/**
 * S6 as far as it is built: every metric of a site of 50 M events in 180 days, half of the table, and what the same
 * question takes without projections.
 */
export async function stats(): Promise<object> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const rig = await startClickHouseRig(dir)
  try {
    const { clickHouse, url } = await rig.database('sluice')
    const began = performance.now()
    await fillEvents(clickHouse, { site: 'big', events, end, days: 180 })
    await fillEvents(clickHouse, { site: 'small', sites: 1_000, events, end, days: 180 })
    const filled_seconds = Math.round((performance.now() - began) / 1000)
    await rig.settle()
    const reader = openClickHouse(url)
    const results: object[] = []
    for (const metric of metrics) {
      for (const [range, days] of Object.entries(ranges)) {
        for (const group_by of groupings) {
          const query = {
            site_id: 'big',
            metric,
            start_date: String(end - days * day + 60_000),
            end_date: String(end - 60_000),
            ...(group_by && { group_by }),
          }
          results.push({
            metric,
            range,
            group_by: group_by ?? '',
            ...(await timed(reader, query, {})),
            without_projections_p50_ms: (await timed(reader, query, { optimize_use_projections: 0 })).p50_ms,
          })
        }
      }
    }
    await reader.close()
    return { events, filled_seconds, results }
  } finally {
    await rig.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function timed(
  reader: ClickHouse,
  query: Readonly<Record<string, string>>,
  settings: Readonly<Record<string, number>>,
): Promise<{ p50_ms: number; p95_ms: number }> {
  const clickHouse: Pick<ClickHouse, 'query'> = {
    query: (sql, params, options) =>
      reader.query(sql, params, { ...options, settings: { ...options?.settings, ...settings } }),
  }
  const handle = statsHandler({
    clickHouse,
    sites: { find: () => Promise.resolve({ settings: { timezone: 'UTC', conversion_event: null } }) },
    completeUntil: () => end,
  })
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    await handle(apiRequest({ receivedAt: end, query }))
    times.push(performance.now() - began)
  }
  return { p50_ms: rounded(median(times), 0), p95_ms: rounded(Math.max(...times.slice(1)), 0) }
}
