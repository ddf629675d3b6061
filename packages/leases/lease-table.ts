/**
 * A lease ends after this many ms unless it is renewed. The holder aborts its work earlier, so that the clocks of two
 * workers may differ by five seconds.
 */
export const leaseMs = 30_000
/**
 * After this time without a renewal, counted from the take or the last renewal, work ends. Another worker takes the job
 * later.
 */
export const leaseWorkMsMax = leaseMs - 5_000

/**
 * A lease: the id of the job's row, and a number that identifies the holder. Each take gives the job another number.
 */
export interface LeaseKey {
  readonly id: string
  readonly lease: number
}

/** A job that was taken. */
export interface Leased<Job> extends LeaseKey {
  job: Job
  /** When the job became due, Unix ms. */
  dueAt: number
  /**
   * Number of units in a row that failed without progress, because of the job itself. A unit whose worker died counts
   * too, because its lease has expired.
   */
  failures: number
}

/** Numbers of unfinished jobs of a kind: with a lease, due without a lease, and due later. */
export interface JobCounts {
  running: number
  waiting: number
  scheduled: number
  /** The number of these jobs that have failed at least ten times in a row, for any reason. */
  failing: number
}

/** Units in a row without progress. */
export interface FailureCounts {
  /** All units. The delay before the next one depends on this number. */
  tries: number
  /** Units whose failure the job itself caused. */
  failures: number
}

/**
 * The port of one kind of job, whose rows are leased (packages/postgres/leases.ts). `now` and `dueAt` are times of the
 * caller's clock in Unix ms; the table has no clock. Every method throws AppError `unavailable`, which is retryable,
 * while the table is unavailable. Methods with a lease throw LeaseLostError when another worker, or nobody, holds the job.
 */
export interface LeaseTable<Job> {
  /**
   * Takes up to `max` due jobs without a lease, each for `leaseMs`. The job that has been due longest comes first; of
   * erasures, those of sites that have fewer of them running.
   */
  take(now: number, max: number): Promise<Leased<Job>[]>
  /** Prolongs the lease to `now + leaseMs`. `lost`: another worker has taken the job, or the lease has ended. */
  renew(lease: LeaseKey, now: number): Promise<'held' | 'lost' | 'cancelled'>
  /**
   * Ends the lease. The job can be taken again at `dueAt` or later. With null, the job has ended, but a job that has
   * failed may have got another due time from `fail`. A job that has ended is not changed by `dueAt`. `isProgress`
   * resets the counts of failures.
   */
  release(lease: LeaseKey, dueAt: number | null, options: { isProgress: boolean }): Promise<void>
  /**
   * Counts a unit that failed without progress, and returns the new counts. `isCausedByJob` means that the job itself
   * is the reason, and not an engine or its settings. The lease continues.
   */
  countFailure(lease: LeaseKey, options: { isCausedByJob: boolean }): Promise<FailureCounts>
  /** Records that the job has failed permanently, with a text for users. The lease continues. */
  fail(lease: LeaseKey, error: string, now: number): Promise<void>
  /** Due time (Unix ms) of the job that can be taken and has been due longest; undefined if there is none. */
  oldestDue(now: number): Promise<number | undefined>
  /** The numbers of unfinished jobs, by their state. */
  count(now: number): Promise<JobCounts>
}

/** Thrown by every write under a lease that the caller no longer holds. Nothing was written. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError'

  constructor({ id, lease }: LeaseKey) {
    super(`lease ${lease} of ${id} is lost`)
  }
}
