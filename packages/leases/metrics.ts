import { Counter, Gauge, Histogram, type Metrics } from '@sluice/runtime/metrics'

/** The metrics of all kinds of jobs of a process; docs/operations.md says which to watch. */
export interface LeaseMetrics {
  /** `ageSeconds` is called at each scrape. */
  addOldestDue(kind: string, ageSeconds: () => number): void
  leasesLost: Counter<'kind'>
  unitSeconds: Histogram<'kind'>
}

export function leaseMetrics(metrics: Metrics): LeaseMetrics {
  const registers = [metrics]
  const labelNames = ['kind'] as const
  const ages = new Map<string, () => number>()
  new Gauge({
    name: 'sluice_worker_oldest_due_seconds',
    help: 'Time for which the oldest job that no worker has taken has been due; 0 when none is.',
    labelNames,
    registers,
    // Computed at the scrape, so that the age grows while Postgres is away.
    collect() {
      for (const [kind, ageSeconds] of ages) this.set({ kind }, ageSeconds())
    },
  })
  return {
    addOldestDue: (kind, ageSeconds) => {
      ages.set(kind, ageSeconds)
    },
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
      buckets: [0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
      registers,
    }),
  }
}
