import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'
import type { JobCounts } from './lease-table.ts'

/** The metrics of all kinds of jobs of a process; docs/operations.md says which to watch. */
export interface LeaseMetrics {
  /** `ageSeconds` is called at each scrape. */
  addOldestDue(kind: string, ageSeconds: () => number): void
  /** `counts` is called at each scrape; undefined while nothing was counted. */
  addJobs(kind: string, counts: () => JobCounts | undefined): void
  waitSeconds: Histogram<'kind'>
  leasesLost: Counter<'kind'>
  unitSeconds: Histogram<'kind'>
}

/** Registers the metrics of jobs. Call it once for each process. */
export function leaseMetrics(metrics: Metrics): LeaseMetrics {
  const registers = [metrics]
  const labelNames = ['kind'] as const
  const ages = new Map<string, () => number>()
  const jobs = new Map<string, () => JobCounts | undefined>()
  new Gauge({
    name: 'sluice_worker_oldest_due_seconds',
    help: 'Time for which the oldest job that no worker has taken has been due; 0 when none is. While jobs cannot be taken, at least the time since then.',
    labelNames,
    registers,
    // Computed at each scrape, so that the age grows while Postgres is unavailable.
    collect() {
      for (const [kind, ageSeconds] of ages) this.set({ kind }, ageSeconds())
    },
  })
  new Gauge({
    name: 'sluice_worker_jobs',
    help: 'Jobs of all workers that are not finished: running, due and not taken (waiting), due later (scheduled).',
    labelNames: ['kind', 'state'],
    registers,
    collect() {
      for (const [kind, counts] of jobs) {
        const { failing: _, ...states } = counts() ?? {}
        for (const [state, count] of Object.entries(states)) this.set({ kind, state }, count)
      }
    },
  })
  new Gauge({
    name: 'sluice_worker_jobs_failing',
    help: 'Jobs of all workers that are not finished and have failed at least ten times in a row.',
    labelNames,
    registers,
    collect() {
      for (const [kind, counts] of jobs) {
        const failing = counts()?.failing
        if (failing !== undefined) this.set({ kind }, failing)
      }
    },
  })
  return {
    addJobs: (kind, counts) => jobs.set(kind, counts),
    waitSeconds: new Histogram({
      name: 'sluice_worker_job_wait_seconds',
      help: 'Time from when a unit of work was due until a worker took it.',
      labelNames,
      buckets: [0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1_800],
      registers,
    }),
    addOldestDue: (kind, ageSeconds) => ages.set(kind, ageSeconds),
    leasesLost: new Counter({
      name: 'sluice_worker_leases_lost_total',
      help: 'Units that were aborted because their lease was lost or could not be renewed.',
      labelNames,
      registers,
    }),
    unitSeconds: new Histogram({
      name: 'sluice_worker_unit_seconds',
      help: 'Time of a unit of work, whatever its outcome.',
      labelNames,
      buckets: [0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600],
      registers,
    }),
  }
}
