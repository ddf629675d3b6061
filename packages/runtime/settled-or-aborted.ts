/**
 * Settles as `work` does, or rejects with the signal's reason if that aborts first; the work's result is then ignored. Nothing of
 * the call is left at a signal that lasts: a race with one promise for all calls would keep each of them in memory.
 */
export async function settledOrAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => {
    aborted.reject(signal.reason as Error)
  }
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
