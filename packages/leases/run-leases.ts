import { type AppError, internalMessage, isRetryable } from '@sluice/runtime/errors'
import type { Component } from '@sluice/runtime/supervisor'
import type { Leased } from './lease-table.ts'
import { startUnit, type Unit, type UnitOptions } from './run-unit.ts'

export interface LeaseOptions<Job> extends UnitOptions<Job> {
  /** Units of this kind that run at a time in this process. */
  concurrency: number
  /** Aborts when the process begins to stop; the component itself is stopped later, after the last request. */
  stopping?: AbortSignal
}

const takeMs = 1_000
/** Takes back off up to so many ms while Postgres is away. */
const longestBackoffMs = 10_000
/** Time for the units under way to end by themselves after a stop. */
const graceMs = 5_000
/** Time for aborted units to end and to release their leases. A Postgres that hangs is not waited for. */
const releaseMs = 1_500

/**
 * Takes the jobs of one kind that are due, each second and as soon as a unit has ended, and works on them: one unit of
 * work under each lease, then the job waits for its next turn behind the others. Any number of processes may do so.
 *
 * A unit that fails is repeated after 1 s, doubling to 5 min: without end after retryable failures, otherwise until ten
 * in a row have failed without progress. A stop takes nothing more, waits 5 s for the units under way, aborts them and
 * releases their leases, within 7 s.
 */
export function runLeases<Job>(options: LeaseOptions<Job>): Component {
  const { kind, table, clock, concurrency, logger, metrics, stopping } = options
  const units = new Set<Unit>()
  let oldestDueAt: number | undefined
  let unitEnded = Promise.withResolvers<undefined>()
  let taking: Promise<void> = Promise.resolve()
  metrics.addOldestDue(kind, () => (oldestDueAt === undefined ? 0 : Math.max(0, clock.now() - oldestDueAt) / 1000))

  function start(leased: Leased<Job>, takenAt: number): void {
    const unit = startUnit(options, leased, takenAt)
    units.add(unit)
    void unit.ended.then(() => {
      units.delete(unit)
      unitEnded.resolve(undefined)
    })
  }

  /** Takes as many jobs as there is room for, and measures what is left. Those that come after a stop are given back. */
  async function takeDue(signal: AbortSignal): Promise<void> {
    const free = concurrency - units.size
    const takenAt = clock.now()
    const taken = free > 0 ? await table.take(takenAt, free) : []
    if (signal.aborted) {
      await Promise.all(taken.map((leased) => table.release(leased, takenAt, { isProgress: false })))
      return
    }
    for (const leased of taken) start(leased, takenAt)
    oldestDueAt = taken.length < free ? undefined : await table.oldestDue(clock.now())
  }

  async function takeUntilStopped(signal: AbortSignal): Promise<void> {
    const stopped = aborted(signal)
    let backoffMs = 0
    while (!signal.aborted) {
      const hasEnded = unitEnded.promise
      try {
        taking = takeDue(signal)
        await Promise.race([taking, stopped])
        backoffMs = 0
      } catch (error) {
        if (!isRetryable(error)) throw error
        if (backoffMs === 0) warn(error)
        backoffMs = Math.min(Math.max(takeMs, 2 * backoffMs), longestBackoffMs)
      }
      const awake = new AbortController()
      const pause = clock.sleep(backoffMs || takeMs, AbortSignal.any([signal, awake.signal]))
      await (backoffMs > 0 ? pause : Promise.race([pause, hasEnded]))
      awake.abort()
      unitEnded = Promise.withResolvers()
    }
  }

  function warn(error: AppError): void {
    logger.warn({ kind, error: internalMessage(error) }, 'jobs can not be taken, the worker tries again')
  }

  async function stopUnits(): Promise<void> {
    // A take that is under way may still bring jobs, which it gives back.
    const ended = (): Promise<unknown> => Promise.allSettled([taking, ...[...units].map((unit) => unit.ended)])
    const within = async (ms: number): Promise<void> => {
      const done = new AbortController()
      await Promise.race([ended(), clock.sleep(ms, done.signal)])
      done.abort()
    }
    await within(graceMs)
    for (const unit of units) unit.stop()
    await within(releaseMs)
  }

  return {
    name: `jobs: ${kind}`,
    run: async (signal) => {
      try {
        await takeUntilStopped(stopping ? AbortSignal.any([signal, stopping]) : signal)
      } finally {
        await stopUnits()
      }
    },
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', () => {
      resolve(undefined)
    })
  })
}
