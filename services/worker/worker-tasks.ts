import { alerts } from './alerts/alerts.ts'
import { canary as canaryTask } from './canary/canary.ts'
import type { CanaryOptions } from './canary/canary-unit.ts'
import { erasureHashes } from './erasures/erasure-hashes.ts'
import { erasures } from './erasures/erasures.ts'
import { stalledErasures } from './erasures/stalled-erasures.ts'
import { exportFiles } from './exports/export-files.ts'
import { exportSchedules } from './exports/export-schedules.ts'
import { exports } from './exports/exports.ts'
import { importFiles } from './imports/import-files.ts'
import { imports } from './imports/imports.ts'
import { retention } from './retention/retention.ts'
import { summaries } from './summaries/summaries.ts'
import { deliveries, deliveryGauges, oldDeliveries } from './webhooks/deliveries.ts'
import { secretsReencryption } from './webhooks/secrets-reencryption.ts'
import type { WorkerTask } from './worker-task.ts'

export interface TaskOptions {
  /**
   * Interval in ms at which the rows of all waiting erasures are deleted together; 0: erasures do not wait for each
   * other.
   */
  deleteEveryMs: number
  /** Undefined: the canary is off. */
  canary?: CanaryOptions | undefined
}

/** The tasks that the worker does. */
export function workerTasks({ deleteEveryMs, canary }: TaskOptions): readonly WorkerTask[] {
  return [
    imports,
    importFiles,
    exports,
    exportSchedules,
    exportFiles,
    erasures({ deleteEveryMs }),
    stalledErasures,
    erasureHashes,
    retention,
    alerts,
    summaries,
    deliveries,
    deliveryGauges,
    oldDeliveries,
    secretsReencryption,
    ...(canary === undefined ? [] : [canaryTask(canary)]),
  ]
}
