import type { AlertCondition } from '@sluice/contracts/alerts'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import type { Postgres } from '@sluice/postgres/open'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addRule } from '../tests/support/alert-rules.ts'
import { fillEvents } from './fill-events.ts'
import { startJobs } from './jobs-rig.ts'
import { rounded } from './report.ts'

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
 * Measures how long after each full minute one worker has evaluated all alert rules for it. The bar is one minute. An
 * idle writer advances the watermark.
 */
export async function evaluateAlerts(): Promise<object> {
  const rig = await startJobs()
  const { postgres, worker } = rig
  try {
    await fill(rig.clickHouseUrl)
    await addRules(postgres)
    const seconds: number[] = []
    for (let minute = 0; minute < minutes; minute += 1) seconds.push(await evaluateNextMinute(postgres))
    return {
      bar: 60,
      seconds_until_all_are_evaluated: seconds,
      rules: sites * questions.length,
      sites,
      events_per_site: eventsPerSite,
      failed: await failures(postgres),
      worker_rss_mib: await worker.rssPeakMib(),
    }
  } finally {
    await rig.stop()
  }
}

/** Each site gets the same number of events, over the days until ten minutes from now. */
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

/** Waits for the next full minute; resolves to the seconds until every rule is evaluated for it. */
async function evaluateNextMinute(postgres: Postgres): Promise<number> {
  const rules = alertRuleStore(postgres)
  const minute = (Math.floor(Date.now() / minuteMs) + 1) * minuteMs
  const isEvaluated = async (): Promise<boolean> => ((await rules.oldestEvaluated()) ?? 0) >= minute
  await waitUntil(isEvaluated, 'all rules are evaluated', 3 * minuteMs)
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
