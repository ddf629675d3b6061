import { hourMs } from '@sluice/contracts/time-units'
import type { Context } from '@sluice/http/run-service'
import type { Service } from '@sluice/http/service'
import { leaseMetrics } from '@sluice/leases/metrics'
import { backupStore } from '@sluice/postgres/backups'
import { correctedClock } from '@sluice/runtime/clock'
import { addBackupAge } from './backups/backup-age.ts'
import { addDiskMetrics } from './blobs/disk-metrics.ts'
import type { CanaryOptions } from './canary/canary-unit.ts'
import type { TaskContext, WorkerEngines, WorkerTask } from './worker-task.ts'
import { workerTasks } from './worker-tasks.ts'

export interface WorkerOptions {
  /**
   * Interval in ms at which the rows of all waiting erasures are deleted together; 0: erasures do not wait for each
   * other. An hour by default, because a deletion rewrites a column of every part that it concerns.
   */
  deleteEveryMs?: number
  /** Undefined: the canary is off. */
  canary?: CanaryOptions | undefined
  /** The tasks of this worker; all of `workerTasks` by default. */
  tasks?: readonly WorkerTask[]
}

/** The worker on its engines: the background work of all sites. Its port serves health and metrics only. */
export function buildWorker(
  engines: WorkerEngines,
  { logger, metrics, clock }: Context,
  { deleteEveryMs = hourMs, canary, tasks = workerTasks({ deleteEveryMs, canary }) }: WorkerOptions = {},
): Service {
  const { log, backfill, inserter, postgres, blobs } = engines
  const stopping = new AbortController()
  addBackupAge(metrics, backupStore(postgres), correctedClock(clock))
  addDiskMetrics(metrics, blobs)
  const context: TaskContext = {
    logger,
    clock: correctedClock(clock),
    leaseMetrics: leaseMetrics(metrics),
    metrics,
    stopping: stopping.signal,
  }
  return {
    routes: [],
    pages: [],
    components: tasks.map((task) => task(engines, context)),
    checks: [
      { name: 'log', required: true, check: () => log.check() },
      { name: 'backfill log', required: true, check: () => backfill.check() },
      { name: 'clickhouse', required: true, check: () => inserter.check() },
      { name: 'postgres', required: true, check: () => postgres.check() },
      { name: 'blobs', required: true, check: () => blobs.check() },
    ],
    onStopping: () => stopping.abort(),
  }
}
