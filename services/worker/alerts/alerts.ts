import { runLeases } from '@sluice/leases/run-leases'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { WorkerTask } from '../worker-task.ts'
import { alertUnit } from './alert-unit.ts'
import { addAlertLag, alertMetrics } from './metrics.ts'

/** Sites whose rules are evaluated at a time; each runs one statement at a time. */
const concurrency = 4

/** The alert rules of each site as a kind of job. */
export const alerts: WorkerTask = ({ postgres, eventReader }, { metrics, ...context }) => {
  const rules = alertRuleStore(postgres)
  addAlertLag(metrics, rules, context.clock)
  const work = alertUnit({
    rules,
    sites: siteStore(postgres),
    watermarks: watermarkStore(postgres),
    reader: eventReader,
    clock: context.clock,
    metrics: alertMetrics(metrics),
  })
  return runLeases({ kind: 'alerts', table: rules.leases, work, concurrency, ...context })
}
