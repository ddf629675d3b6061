/** Makes a function that calls `make` when it is called first, and returns that value from then on. */
export function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => (made ??= { value: make() }).value
}

/**
 * Makes a function that runs `work` when it is called first; all callers share that run and its result. After a failure
 * the next call runs it again.
 */
export function untilSuccessful<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () =>
    (running ??= work().catch((error: unknown) => {
      running = undefined
      throw error
    }))
}
