import type { Clock } from '@sluice/runtime/clock'
import { AppError, failureKind, internalMessage, isRetryable, publicMessage } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { describeSpan, traced } from '@sluice/runtime/tracing'
import { type FailureCounts, type Leased, type LeaseKey, LeaseLostError, type LeaseTable } from './lease-table.ts'
import type { LeaseMetrics } from './metrics.ts'
import { renewLease } from './renew-lease.ts'

/** The lease of a unit of work. Every write of the unit is guarded by its key. */
export interface Lease extends LeaseKey {
  /**
   * Aborts when the unit has to end: the lease is lost or could not be renewed, the job is cancelled, or the process
   * stops. What the unit writes after that is refused or repeated.
   */
  readonly signal: AbortSignal
}

/** How a unit of work ended. */
export interface UnitResult {
  /** When the job continues: `now`, after other jobs that are due; a time in Unix ms; or never, because it is done. */
  next: 'now' | number | 'done'
  /** Counts and ids for the log line of the unit. */
  log?: Readonly<Record<string, unknown>>
}

export interface UnitOptions<Job> {
  /** The kind of job in metrics and logs. */
  kind: string
  table: LeaseTable<Job>
  /** Does one unit of work, a few seconds long, from what the table says about the job. */
  work: (job: Job, lease: Lease) => Promise<UnitResult>
  clock: Clock
  logger: Logger
  leaseMetrics: LeaseMetrics
}

/** Why a unit had to end before its work did. */
type AbortReason = 'lost' | 'cancelled' | 'expired' | 'stopped'

/** Why the signal of a unit has aborted. */
class UnitAbortedError extends Error {
  override readonly name = 'UnitAbortedError'
  readonly reason: AbortReason

  constructor(reason: AbortReason) {
    super(`the unit was aborted: ${reason}`)
    this.reason = reason
  }
}

/** Failures of the job's own, in a row, after which the job has failed. */
const failuresMax = 10
const firstRetryMs = 1_000
const longestRetryMs = 300_000
/**
 * Work that has not ended this long after it was aborted is abandoned; it can write no more once the lease has ended.
 */
const abandonMs = 500
/** The pause between attempts to record the end of a unit while Postgres is unavailable. */
const retryMs = 1_000

interface Outcome {
  outcome: 'more' | 'later' | 'done' | 'retried' | 'failed' | AbortReason
  log?: Readonly<Record<string, unknown>>
  error?: unknown
}

/** A unit of work under way. */
export interface Unit {
  /** Resolves when the unit has ended and its lease too, unless Postgres is unavailable; never rejects. */
  readonly ended: Promise<void>
  /** Aborts the work because the process stops. */
  stop(): void
}

/** Starts a unit of a job that was taken at `takenAt` (Unix ms by `clock`). */
export function startUnit<Job>(options: UnitOptions<Job>, leased: Leased<Job>, takenAt: number): Unit {
  const { kind, table, clock, logger, leaseMetrics } = options
  const { id, lease } = leased
  const key: LeaseKey = { id, lease }
  const abort = new AbortController()
  const ended = new AbortController()

  async function run(): Promise<void> {
    let outcome: Outcome
    try {
      outcome = await settle(await runWork())
    } catch (error) {
      // The table failed in a way that a retry can't resolve: the lease lapses, and the job is taken again.
      outcome = { outcome: 'expired', error }
    }
    ended.abort()
    report(outcome)
  }

  function abortUnit(reason: AbortReason): void {
    abort.abort(new UnitAbortedError(reason))
  }

  async function runWork(): Promise<{ result: UnitResult } | { error: unknown }> {
    if (leased.failures >= failuresMax) return { error: new Error(`${leased.failures} workers died with this job`) }
    const abandoned = Promise.withResolvers<never>()
    const abandon = async (): Promise<void> => {
      await clock.sleep(abandonMs, ended.signal)
      abandoned.reject(abort.signal.reason)
    }
    abort.signal.addEventListener('abort', () => void abandon())
    const work = (async () => options.work(leased.job, { ...key, signal: abort.signal }))()
    try {
      return { result: await Promise.race([work, abandoned.promise]) }
    } catch (error) {
      return { error }
    } finally {
      for (const late of [work, abandoned.promise]) late.catch(() => undefined)
    }
  }

  async function settle(worked: { result: UnitResult } | { error: unknown }): Promise<Outcome> {
    if ('result' in worked) {
      const { next, log = {} } = worked.result
      const dueAt = next === 'done' ? null : next === 'now' ? clock.now() : next
      const outcome = next === 'done' ? 'done' : next === 'now' ? 'more' : 'later'
      return recordEnd(async () => {
        await table.release(key, dueAt, { isProgress: true })
        return { outcome, log }
      })
    }
    const { error } = worked
    if (error instanceof LeaseLostError) return lostOutcome()
    const reason = abortReason()
    if (reason === undefined) return settleFailure(error)
    if (reason !== 'stopped') return { outcome: reason }
    return recordEnd(async () => {
      await table.release(key, clock.now(), { isProgress: false })
      return { outcome: 'stopped' }
    })
  }

  async function settleFailure(error: unknown): Promise<Outcome> {
    let counts: FailureCounts | undefined
    return recordEnd(async () => {
      // Counted once, however often what follows is repeated.
      counts ??= await table.countFailure(key, { isCausedByJob: isCausedByJob(error) })
      const { tries, failures } = counts
      const hasFailed = failures >= failuresMax
      if (hasFailed) await table.fail(key, publicMessage(error), clock.now())
      const delayMs = Math.min(firstRetryMs * 2 ** (tries - 1), longestRetryMs)
      await table.release(key, hasFailed ? null : clock.now() + delayMs, { isProgress: false })
      return { outcome: hasFailed ? 'failed' : 'retried', error }
    })
  }

  /**
   * Records the end of the unit in the table, again and again while that is unavailable and the lease lasts. What can't
   * be recorded is repeated by the next holder.
   */
  async function recordEnd(end: () => Promise<Outcome>): Promise<Outcome> {
    for (;;) {
      try {
        return await end()
      } catch (error) {
        if (error instanceof LeaseLostError) return lostOutcome()
        if (!isRetryable(error)) throw error
        const reason = abortReason()
        if (reason !== undefined) return { outcome: reason, error }
        await clock.sleep(retryMs, abort.signal)
      }
    }
  }

  function lostOutcome(): Outcome {
    return { outcome: abortReason() === 'cancelled' ? 'cancelled' : 'lost' }
  }

  function abortReason(): AbortReason | undefined {
    const reason: unknown = abort.signal.reason
    return reason instanceof UnitAbortedError ? reason.reason : undefined
  }

  function report({ outcome, log, error }: Outcome): void {
    const seconds = Math.max(0, clock.now() - takenAt) / 1000
    leaseMetrics.unitSeconds.observe({ kind }, seconds)
    if (outcome === 'lost' || outcome === 'expired') leaseMetrics.leasesLost.inc({ kind })
    describeSpan({ 'sluice.outcome': outcome }, error === undefined ? undefined : failureKind(error))
    const fields = { ...log, kind, id, lease, outcome, duration_ms: Math.round(seconds * 1000) }
    if (error === undefined) logger.info(fields, 'unit of work')
    else if (isRetryable(error)) logger.warn({ ...fields, error: internalMessage(error) }, 'unit of work')
    else logger.error({ ...fields, err: error }, 'unit of work')
  }

  void renewLease(table, key, { clock, takenAt, ended: ended.signal }).then(
    (reason) => {
      if (reason !== undefined) abortUnit(reason)
    },
    (error: unknown) => {
      logger.error({ err: error, kind, id }, 'lease renewal failed')
      abortUnit('expired')
    },
  )
  return {
    ended: traced(`job ${kind}`, { attributes: { 'sluice.job.id': id }, parentAndLinks: [] }, run),
    stop: () => abortUnit('stopped'),
  }
}

/** Whether the reason of a failure lies in the job, and not in an engine that is unavailable or refuses the worker. */
function isCausedByJob(error: unknown): boolean {
  return !(error instanceof AppError) || !(error.retryable || error.needsOperator)
}
