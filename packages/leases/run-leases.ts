import { requireComparedClock } from '@sluice/runtime/clock'
import { beginAtZero } from '@sluice/runtime/metrics'
import type { Component } from '@sluice/runtime/supervisor'
import type { JobCounts, Leased } from './lease-table.ts'
import { startUnit, type Unit, type UnitOptions } from './run-unit.ts'
import { takeLoop } from './take-loop.ts'

export interface LeaseOptions<Job> extends UnitOptions<Job> {
  /** Maximum number of concurrent units of this kind in this process. */
  concurrency: number
  /** Aborts when the process begins to stop. The component itself is stopped later, after the last request. */
  stopping?: AbortSignal
}

/**
 * Interval between counts of jobs for the metrics, in ms. A count reads every unfinished row, so it is not done at each
 * scrape.
 */
const countMs = 15_000

/**
 * Takes the due jobs of one kind each second, and as soon as a unit has ended. Each lease covers one unit of work; then
 * the job waits for its next turn behind the others. Any number of processes may do so.
 *
 * A unit that fails is repeated after 1 s, and the delay doubles up to 5 min. If an engine or its settings are the
 * reason, this continues without end; otherwise the job fails after ten units in a row without progress. After a stop,
 * it takes nothing more, waits 5 s for the running units, aborts them and releases their leases, within 7 s in total.
 */
export function runLeases<Job>(options: LeaseOptions<Job>): Component {
  const { kind, table, clock, concurrency, logger, leaseMetrics, stopping } = options
  const units = new Set<Unit>()
  let oldestDueAt: number | undefined
  let counts: JobCounts | undefined
  /** Time of the last count by the clock; none at first. */
  let countedAt = -Infinity
  leaseMetrics.addOldestDue(kind, () => (oldestDueAt === undefined ? 0 : Math.max(0, clock.now() - oldestDueAt) / 1000))
  leaseMetrics.addJobs(kind, () => counts)
  const { leasesLost, waitSeconds, unitSeconds } = leaseMetrics
  for (const metric of [leasesLost, waitSeconds, unitSeconds]) beginAtZero(metric, { kind: [kind] })

  async function work(leased: Leased<Job>, takenAt: number): Promise<void> {
    const unit = startUnit(options, leased, takenAt)
    units.add(unit)
    await unit.ended
    units.delete(unit)
  }

  /** Takes as many jobs as there are free slots, and measures what remains. */
  async function take(signal: AbortSignal, follow: (work: Promise<void>) => void): Promise<void> {
    const takenAt = clock.now()
    try {
      requireComparedClock(clock)
      await takeAt(takenAt, signal, follow)
    } catch (error) {
      // All jobs that become due from now on have to wait.
      oldestDueAt ??= takenAt
      throw error
    }
  }

  /** Jobs that were taken during a stop are given back. */
  async function takeAt(takenAt: number, signal: AbortSignal, follow: (work: Promise<void>) => void): Promise<void> {
    const free = concurrency - units.size
    const taken = free > 0 ? await table.take(takenAt, free) : []
    if (signal.aborted) {
      await Promise.all(taken.map((leased) => table.release(leased, takenAt, { isProgress: false })))
      return
    }
    for (const leased of taken) {
      waitSeconds.observe({ kind }, Math.max(0, takenAt - leased.dueAt) / 1000)
      follow(work(leased, takenAt))
    }
    oldestDueAt = taken.length < free ? undefined : await table.oldestDue(clock.now())
    if (Math.abs(takenAt - countedAt) < countMs) return
    counts = await table.count(takenAt)
    countedAt = takenAt
  }

  return takeLoop({
    name: `jobs: ${kind}`,
    clock,
    ...(stopping && { stopping }),
    take,
    abort: () => {
      for (const unit of units) unit.stop()
    },
    warn: (fields) => {
      logger.warn({ kind, ...fields }, 'jobs could not be taken, retrying')
    },
  })
}
