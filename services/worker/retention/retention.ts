import { runLeases } from '@sluice/leases/run-leases'
import { retentionRunStore } from '@sluice/postgres/retention-runs'
import { siteStore } from '@sluice/postgres/sites'
import type { WorkerTask } from '../worker-task.ts'
import { retentionUnit } from './retention-unit.ts'

/** Deletes what sites no longer keep; one job for all workers. */
export const retention: WorkerTask = ({ postgres, eraser }, context) => {
  const runs = retentionRunStore(postgres)
  const work = retentionUnit({
    runs,
    sites: siteStore(postgres),
    eraser,
    clock: context.clock,
  })
  return runLeases({ kind: 'retention', table: runs.leases, work, concurrency: 1, ...context })
}
