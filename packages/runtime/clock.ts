import { sleep } from './supervisor.ts'

/**
 * The time for schedules; tests of these pass a virtual clock. Code that handles events reads the SynchronizedClock
 * (synchronized-clock.ts), and timers of drivers are never faked.
 */
export interface Clock {
  /** Unix ms. */
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

const neverAborted = new AbortController().signal

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal = neverAborted) => sleep(ms, signal),
}
