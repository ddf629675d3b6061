import { runLeases } from '@sluice/leases/run-leases'
import { exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { WorkerTask } from '../worker-task.ts'
import { scheduleUnit } from './schedule-unit.ts'

/** The schedules of exports as a kind of job, which makes their runs. */
export const exportSchedules: WorkerTask = ({ postgres }, context) => {
  const exports = exportStore(postgres)
  const work = scheduleUnit({
    exports,
    sites: siteStore(postgres),
    watermarks: watermarkStore(postgres),
    clock: context.clock,
  })
  return runLeases({ kind: 'export schedules', table: exports.schedules, work, concurrency: 4, ...context })
}
