import pLimit from 'p-limit'

/**
 * Returns a function that runs at most `max` of the given works at a time and starts the others in the order of the
 * calls. Its promise settles as the work's does. The next work starts even if one fails.
 */
export function concurrencyLimit(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const limit = pLimit(max)
  return (work) => limit(work)
}
