import { runLeases } from '@sluice/leases/run-leases'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import type { WorkerTask } from '../worker-task.ts'
import { erasureUnit } from './erasure-unit.ts'
import { addErasureAge } from './metrics.ts'

/** A unit mostly waits for ClickHouse. */
const concurrency = 4

/** The erasures as a kind of job; `deleteEveryMs` is as in `ErasureUnitDeps`. */
export function erasures({ deleteEveryMs }: { deleteEveryMs: number }): WorkerTask {
  return ({ postgres, eraser, blobs }, { metrics, ...context }) => {
    const store = erasureStore(postgres)
    addErasureAge(metrics, store, context.clock)
    return runLeases({
      kind: 'erasures',
      table: store.leases,
      work: erasureUnit({
        erasures: store,
        eraser,
        exports: exportStore(postgres),
        blobs,
        clock: context.clock,
        deleteEveryMs,
      }),
      concurrency,
      ...context,
    })
  }
}
