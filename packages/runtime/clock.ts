import { unavailable } from './errors.ts'
import { sleep } from './sleep.ts'
import type { SynchronizedClock } from './synchronized-clock.ts'

/** Time as background work sees it, so that tests decide when it passes. Hot paths read `Date.now()` instead. */
export interface Clock {
  /** The time in Unix ms, a whole number. */
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /**
   * False until the clock has been compared with Postgres, because until then `now` may be wrong. Absent for a clock
   * that is never wrong.
   */
  isCompared?(): boolean
}

/**
 * The clock of production: the machine's steady time, corrected by the clock of Postgres, and the machine's timers.
 *
 * The clock does not follow the wall clock when somebody sets it, because background work stores the times that this
 * clock tells. If this clock were an hour ahead for one second, until the next comparison with Postgres, the worker
 * would take over the leases of others, delete data an hour too soon, and store that the alert rules of a site are due
 * in an hour. If the clock were set back, the worker would sleep an hour too long between renewals.
 *
 * After the machine has slept, the clock is behind by the length of the sleep until the next comparison, for a second
 * at most. That does no harm: what is due is taken a second later. A lease that the worker takes or renews in that
 * second may already have ended for other workers. They take the lease over, as they would from a machine that still
 * sleeps, and what a worker writes under a lost lease is refused.
 */
export function correctedClock(synchronized: Pick<SynchronizedClock, 'steady' | 'earliest'>): Clock {
  return {
    now: () => synchronized.steady(),
    sleep,
    isCompared: () => synchronized.earliest() > -Infinity,
  }
}

/**
 * Throws AppError `unavailable` before the clock is compared with that of Postgres: with a clock that is ahead, a
 * worker would take over the leases of others.
 */
export function requireComparedClock({ isCompared }: Pick<Clock, 'isCompared'>): void {
  if (isCompared?.() === false) throw unavailable('the clock was not compared with that of Postgres yet')
}
