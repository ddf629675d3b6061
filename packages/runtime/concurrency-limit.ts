import pLimit from 'p-limit'

/**
 * Returns a function that runs at most `max` of the given works at a time and starts the others in the order of the
 * calls. Its promise settles as the work's does; a work that fails gives its place to the next one.
 */
export function concurrencyLimit(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const limit = pLimit(max)
  return (work) => limit(work)
}
