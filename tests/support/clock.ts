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

/** Finds no request too late, however busy the machine of the tests is; publisher.test.ts shows the deadline. */
export const patientClock: SynchronizedClock = { ...exactClock, latest: () => -Infinity }
