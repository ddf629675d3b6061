import type { AlertRuleStore } from '@sluice/postgres/alert-rules'
import type { Clock } from '@sluice/runtime/clock'
import { beginAtZero, Counter, Gauge, type Metrics, scrapeReader } from '@sluice/runtime/metrics'

/** The metrics of alert rules; docs/operations.md says which to watch. */
export interface AlertMetrics {
  evaluations: Counter<'result'>
  transitions: Counter<'to'>
}

/** Registers the metrics of alert rules. */
export function alertMetrics(metrics: Metrics): AlertMetrics {
  const registers = [metrics]
  const evaluations = new Counter({
    name: 'sluice_worker_alert_evaluations_total',
    help: 'Queries of alert rules that were run, equal ones once, by result; batch_failed: statements with several queries.',
    labelNames: ['result'] as const,
    registers,
  })
  const transitions = new Counter({
    name: 'sluice_worker_alert_transitions_total',
    help: 'Alert rules that fired and that resolved.',
    labelNames: ['to'] as const,
    registers,
  })
  beginAtZero(evaluations, { result: ['measured', 'failed', 'batch_failed'] })
  beginAtZero(transitions, { to: ['firing', 'resolved'] })
  return { evaluations, transitions }
}

/** Registers how far the evaluation is behind; docs/operations.md says at which lag to raise an alarm. */
export function addAlertLag(
  metrics: Metrics,
  rules: Pick<AlertRuleStore, 'oldestEvaluated'>,
  clock: Pick<Clock, 'now'>,
): void {
  const readOldest = scrapeReader(() => rules.oldestEvaluated())
  new Gauge({
    name: 'sluice_worker_alert_lag_seconds',
    help: 'Time since the last minute for which the alert rules of every site were evaluated; 0 without rules.',
    registers: [metrics],
    // While Postgres is unavailable, the last answer stays and the lag grows; the worker logs the outage.
    async collect() {
      const oldestAt = await readOldest()
      this.set(oldestAt === undefined ? 0 : Math.max(0, clock.now() - oldestAt) / 1000)
    },
  })
}
