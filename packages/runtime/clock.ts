import { sleep } from './supervisor.ts'
import type { SynchronizedClock } from './synchronized-clock.ts'

/** Time as background work sees it, so that tests decide when it passes. Hot paths read `Date.now()` instead. */
export interface Clock {
  /** The time in Unix ms, a whole number. */
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

const neverAborted = new AbortController().signal

/** The clock of production: the machine's time, corrected by the clock of Postgres, and the machine's timers. */
export function correctedClock(synchronized: Pick<SynchronizedClock, 'now'>): Clock {
  return {
    now: () => synchronized.now(),
    sleep: (ms, signal = neverAborted) => sleep(ms, signal),
  }
}
