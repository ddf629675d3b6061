import { writerGroup } from '@sluice/event-log/writer-group'
import { runLeases } from '@sluice/leases/run-leases'
import { cohortStore } from '@sluice/postgres/cohorts'
import { exportStore } from '@sluice/postgres/exports'
import { siteStore } from '@sluice/postgres/sites'
import { watermarkStore } from '@sluice/postgres/watermarks'
import type { WorkerTask } from '../worker-task.ts'
import { exportUnit } from './export-unit.ts'
import { exportMetrics } from './metrics.ts'
import { storedBlocks } from './stored-blocks.ts'

/**
 * The exports as a kind of job. Two at a time, of different sites, so that a long one does not keep the others waiting.
 */
export const exports: WorkerTask = (
  { postgres, blobs, exportReader, inserter, log, backfill },
  { metrics, ...context },
) => {
  const store = exportStore(postgres)
  const work = exportUnit({
    exports: store,
    cohorts: cohortStore(postgres),
    sites: siteStore(postgres),
    storedBlocks: storedBlocks({
      logs: [log, backfill],
      group: async () => writerGroup(await inserter.storeId()),
      clock: context.clock,
    }),
    watermarks: watermarkStore(postgres),
    reader: exportReader,
    blobs,
    clock: context.clock,
    metrics: exportMetrics(metrics),
  })
  return runLeases({ kind: 'exports', table: store.leases, work, concurrency: 2, ...context })
}
