import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'

/** The machine's clock, taken for the clock of Postgres: they are the same in tests. */
export const exactClock: SynchronizedClock = {
  now: () => Date.now(),
  steady: () => Date.now(),
  earliest: () => Date.now(),
  latest: () => Date.now(),
  compare: () => Promise.resolve(),
  warnings: () => [],
}

/** Never rejects a request as too late, even on a busy machine; publisher.test.ts tests the deadline. */
export const patientClock: SynchronizedClock = { ...exactClock, latest: () => -Infinity }
