import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AlertCondition } from '@sluice/contracts/alerts'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { openClickHouse } from '@sluice/event-store/client'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addRule } from '../tests/support/alert-rules.ts'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { testSecretsKey } from '../tests/support/secrets-key.ts'
import { spawnProgram } from '../tests/support/service-process.ts'
import { fillEvents } from './fill-events.ts'
import { rounded } from './report.ts'
import { startMeasured } from './sluice-rig.ts'

/** BENCH_SITES=10 for a quick look. */
const sites = Number(process.env.BENCH_SITES ?? 100)
const eventsPerSite = 100_000
const days = 2
const minuteMs = 60_000
const minutes = 2

type Question = Pick<AlertCondition, 'metric' | 'window'> & Partial<AlertCondition>

/** The rules of each site: ten questions, of which half are counts. */
const questions: readonly Question[] = [
  { metric: 'event_count', window: '5m' },
  { metric: 'event_count', window: '1h', operator: 'decreases_by_percent', threshold: 50 },
  { metric: 'event_count_by_type', window: '15m', event_type: 'purchase' },
  { metric: 'event_count_by_type', window: '30m', event_type: 'click' },
  { metric: 'event_count', window: '10m', filter: [{ property: 'country', operator: 'equals', value: 'DE' }] },
  { metric: 'unique_users', window: '15m' },
  { metric: 'visitors', window: '1h', operator: 'increases_by_percent', threshold: 100 },
  { metric: 'unique_sessions', window: '5m' },
  { metric: 'bounce_rate', window: '1h' },
  { metric: 'conversion_rate', window: '30m' },
]

/**
 * Alert rules on one worker: how long after each full minute all of them are judged for it. The bar is the minute. A
 * writer that has nothing to do moves the watermark.
 */
export async function judgeAlerts(): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const [kafka, clickHouse, engine] = await Promise.all([
    startKafka({ dir: join(folder, 'kafka') }),
    startClickHouse({ dir: join(folder, 'clickhouse') }),
    startPostgres({ dir: join(folder, 'postgres') }),
  ])
  const postgres = openPostgres(engine.url)
  try {
    const environment = {
      SLUICE_LOG_URL: `kafka://${kafka.brokers}/bench.events`,
      SLUICE_CLICKHOUSE_URL: clickHouse.url,
      SLUICE_POSTGRES_URL: engine.url,
      SLUICE_BLOBS_URL: `file:${join(folder, 'blobs')}`,
      SLUICE_SECRETS_KEY: testSecretsKey,
    }
    const migrated = await spawnProgram('admin/migrate/main', environment)
    if ((await migrated.exited) !== 0) throw new Error(`migrate failed: ${migrated.output()}`)
    await fill(clickHouse.url)
    await addRules(postgres)
    const writer = await startMeasured('writer', environment)
    const worker = await startMeasured('worker', environment)
    const seconds: number[] = []
    for (let minute = 0; minute < minutes; minute += 1) seconds.push(await judgeNextMinute(postgres))
    const failed = await failures(postgres)
    const rss = await worker.rssPeakMib()
    await Promise.all([worker.stop(), writer.stop()])
    return {
      bar: 60,
      seconds_until_all_are_judged: seconds,
      rules: sites * questions.length,
      sites,
      events_per_site: eventsPerSite,
      failed,
      worker_rss_mib: rss,
    }
  } finally {
    await postgres.close()
    await Promise.all([kafka.stop(), clickHouse.stop(), engine.stop()])
    await rm(folder, { recursive: true, force: true })
  }
}

/** Each site has as many events, over the days until ten minutes from now. */
async function fill(url: string): Promise<void> {
  const clickHouse = openClickHouse(url, { requestTimeoutMs: 600_000 })
  const end = Date.now() + 10 * minuteMs
  for (let site = 0; site < sites; site += 1) {
    await fillEvents(clickHouse, { site: `bench-${site}`, events: eventsPerSite, end, days })
  }
  await clickHouse.close()
}

async function addRules(postgres: Postgres): Promise<void> {
  for (let site = 0; site < sites; site += 1) {
    for (const condition of questions) await addRule(postgres, { siteId: `bench-${site}`, cooldown: '1h', condition })
  }
}

/** Waits for the next full minute; resolves to the seconds until every rule is judged for it. */
async function judgeNextMinute(postgres: Postgres): Promise<number> {
  const rules = alertRuleStore(postgres)
  const minute = (Math.floor(Date.now() / minuteMs) + 1) * minuteMs
  const isJudged = async (): Promise<boolean> => ((await rules.oldestJudged()) ?? 0) >= minute
  await waitUntil(isJudged, 'all rules are judged', 3 * minuteMs)
  return rounded((Date.now() - minute) / 1000)
}

async function failures(postgres: Postgres): Promise<number> {
  const rows = await postgres.db
    .selectFrom('alert_rules')
    .select('rule_id')
    .where('last_error', 'is not', null)
    .execute()
  return rows.length
}
