import { alerts } from './alerts/alerts.ts'
import { canary as canaryKind } from './canary/canary.ts'
import type { CanaryOptions } from './canary/canary-unit.ts'
import { erasures } from './erasures/erasures.ts'
import { exportFiles } from './exports/export-files.ts'
import { exportSchedules } from './exports/export-schedules.ts'
import { exports } from './exports/exports.ts'
import { importFiles } from './imports/import-files.ts'
import { imports } from './imports/imports.ts'
import type { JobKind } from './job-kind.ts'
import { retention } from './retention/retention.ts'
import { summaries } from './summaries/summaries.ts'
import { deliveries, deliveryGauges, oldDeliveries } from './webhooks/deliveries.ts'
import { secretsReencryption } from './webhooks/secrets-reencryption.ts'

export interface JobOptions {
  /** Erasures wait for the next multiple of this many ms, to be deleted together; 0: they don't wait. */
  deleteEveryMs: number
  /** Undefined: the canary is off. */
  canary?: CanaryOptions | undefined
}

/** The kinds of jobs that the worker does. */
export function jobKinds({ deleteEveryMs, canary }: JobOptions): readonly JobKind[] {
  return [
    imports,
    importFiles,
    exports,
    exportSchedules,
    exportFiles,
    erasures({ deleteEveryMs }),
    retention,
    alerts,
    summaries,
    deliveries,
    deliveryGauges,
    oldDeliveries,
    secretsReencryption,
    ...(canary === undefined ? [] : [canaryKind(canary)]),
  ]
}
