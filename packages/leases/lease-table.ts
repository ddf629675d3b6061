/**
 * A lease lasts for this many ms unless it is renewed. The holder aborts its work earlier, so that the clocks of two
 * workers may differ by five seconds.
 */
export const leaseMs = 30_000
/**
 * Time without a renewal, or after a take that is not renewed, in which work ends before another worker takes the job.
 */
export const leaseWorkMsMax = leaseMs - 5_000

/**
 * A lease: the id of the job's row, and the number that names one holder. A job that is taken again has another number.
 */
export interface LeaseKey {
  readonly id: string
  readonly lease: number
}

/** A job that was taken. */
export interface Leased<Job> extends LeaseKey {
  job: Job
  /** Unix ms since when the job was due. */
  dueAt: number
  /**
   * Units in a row that failed without progress for a reason that lies in the job. A unit whose worker died counts: its
   * lease lapsed.
   */
  failures: number
}

/** How many unfinished jobs of a kind there are: under a lease, due and not taken, and due later. */
export interface JobCounts {
  running: number
  waiting: number
  scheduled: number
  /** Those among them that have failed at least ten times in a row, whatever the reason. */
  failing: number
}

/** Units in a row without progress. */
export interface FailureCounts {
  /** All units; the delay before the next one depends on their number. */
  tries: number
  /** Units whose failure was the job's own. */
  failures: number
}

/**
 * The port of one kind of job, whose rows are leased (packages/postgres/leases.ts). `now` and `dueAt` are times of the
 * caller's clock in Unix ms; the table has no clock of its own. Every method throws AppError 503, retryable, while the
 * table is unavailable, and those that need the lease throw LeaseLost when another worker holds it, or none does.
 */
export interface LeaseTable<Job> {
  /** Takes up to `max` jobs that are due and not leased, the longest due first, each for `leaseMs`. */
  take(now: number, max: number): Promise<Leased<Job>[]>
  /** Prolongs the lease to `now + leaseMs`. `lost`: another worker has taken the job, or the lease has ended. */
  renew(lease: LeaseKey, now: number): Promise<'held' | 'lost' | 'cancelled'>
  /**
   * Ends the lease: the job can be taken from `dueAt` on, never when it is null. A job that has ended stays ended,
   * whatever `dueAt` is. `isProgress` resets the counts of failures.
   */
  release(lease: LeaseKey, dueAt: number | null, options: { isProgress: boolean }): Promise<void>
  /**
   * Counts a unit that failed without progress, and returns the counts with it. `isCausedByJob`: the reason lies in the
   * job, and not in an engine or its settings. The lease continues.
   */
  countFailure(lease: LeaseKey, options: { isCausedByJob: boolean }): Promise<FailureCounts>
  /** Notes that the job has failed for good, with a text that users read. The lease continues. */
  fail(lease: LeaseKey, error: string, now: number): Promise<void>
  /** Due time (Unix ms) of the longest-waiting job that `take` would return; undefined if there is none. */
  oldestDue(now: number): Promise<number | undefined>
  /** How many jobs are not finished, by what they wait for. */
  count(now: number): Promise<JobCounts>
}

/** Thrown by every write under a lease that its caller no longer holds; nothing was written. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'

  constructor({ id, lease }: LeaseKey) {
    super(`lease ${lease} of ${id} is lost`)
  }
}
