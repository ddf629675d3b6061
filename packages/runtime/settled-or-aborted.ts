/**
 * Settles as `work` does, or rejects with the signal's reason if that aborts first; the work's result is then ignored.
 * Nothing of the call is left at a signal that lasts: a race with one promise for all calls would keep each of them in
 * memory.
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

/**
 * For a loop that ends when its signal aborts: waits until `work` settles or the signal aborts. Rejects with the error
 * of work that fails while the signal has not aborted; after that, the end of the loop is what counts.
 */
export async function settledOrStopped(work: Promise<void>, signal: AbortSignal): Promise<void> {
  await settledOrAborted(work, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}
