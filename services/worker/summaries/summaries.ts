import { runLeases } from '@sluice/leases/run-leases'
import { siteStore } from '@sluice/postgres/sites'
import { summaryStore } from '@sluice/postgres/summaries'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { WorkerTask } from '../worker-task.ts'
import { summaryUnit } from './summary-unit.ts'

/** Summaries that are measured at a time; all hours end at once. */
const concurrency = 4

/** The deliveries `event_summary` of webhooks as a kind of job. */
export const summaries: WorkerTask = ({ postgres, exportReader }, context) => {
  const store = summaryStore(postgres)
  const work = summaryUnit({
    summaries: store,
    sites: siteStore(postgres),
    watermarks: watermarkStore(postgres),
    reader: exportReader,
    clock: context.clock,
  })
  return runLeases({ kind: 'summaries', table: store.leases, work, concurrency, ...context })
}
