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
 * It does not follow a wall clock that is set, because background work stores what it reads here: a worker that is an hour early
 * for a second, until the next comparison, would take over the leases of others, delete what is kept for another hour, and
 * note that a site's alert rules are due in an hour. One that is set back would let it sleep an hour too long between renewals.
 *
 * For up to a second after a sleep of the machine it is late by as long as that took, which does no harm: what is due is taken in the
 * next second. What this worker takes or renews meanwhile has a lease that may have ended for others. They take it over,
 * as they would from a machine that still sleeps, and the writes of a lease that was taken over are refused. Work that went
 * on over the sleep reads the same time as if it had done its next step before.
 */
export function correctedClock(synchronized: Pick<SynchronizedClock, 'steady' | 'earliest'>): Clock {
  return {
    now: () => synchronized.steady(),
    sleep: (ms, signal = neverAborted) => sleep(ms, signal),
    isCompared: () => synchronized.earliest() > -Infinity,
  }
}

/**
 * Throws AppError `unavailable` before the clock is compared with that of Postgres: with a clock that is early, a worker would take
 * over the leases of others.
 */
export function requireComparedClock({ isCompared }: Pick<Clock, 'isCompared'>): void {
  if (isCompared?.() === false) throw unavailable('the clock was not compared with that of Postgres yet')
}
