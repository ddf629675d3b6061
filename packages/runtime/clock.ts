import { unavailable } from './errors.ts'
import { sleep } from './supervisor.ts'
import type { SynchronizedClock } from './synchronized-clock.ts'

/** Time as background work sees it, so that tests decide when it passes. Hot paths read `Date.now()` instead. */
export interface Clock {
  /** The time in Unix ms, a whole number. */
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** False while `now` is the time of a machine that may be wrong; absent where it never is. */
  isCompared?(): boolean
}

const neverAborted = new AbortController().signal

/**
 * The clock of production: the machine's steady time, corrected by the clock of Postgres, and the machine's timers.
 *
 * The clock does not follow the wall clock of the machine when somebody sets that, because background work stores the
 * time that this clock tells. If the clock were an hour early for a second, until the next comparison with Postgres,
 * the worker would take over the leases of others, delete what is to be kept for another hour, and note that a site's
 * alert rules are due in an hour. If the clock were set back, the worker would sleep an hour too long between renewals.
 *
 * When the machine has slept, the clock is late by the length of that sleep until the next comparison, for a second at
 * most. That does no harm: what is due is taken a second later. A lease that the worker takes or renews in that second
 * may have ended for other workers. They take the lease over, as they would from a machine that still sleeps, and what
 * a worker writes under a lost lease is refused.
 */
export function correctedClock(synchronized: Pick<SynchronizedClock, 'steady' | 'earliest'>): Clock {
  return {
    now: () => synchronized.steady(),
    sleep: (ms, signal = neverAborted) => sleep(ms, signal),
    isCompared: () => synchronized.earliest() > -Infinity,
  }
}

/**
 * Throws AppError `unavailable` before the clock is compared with that of Postgres: with a clock that is early, a
 * worker would take over the leases of others.
 */
export function requireComparedClock({ isCompared }: Pick<Clock, 'isCompared'>): void {
  if (isCompared?.() === false) throw unavailable('the clock was not compared with that of Postgres yet')
}
