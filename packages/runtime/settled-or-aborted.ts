/**
 * Settles as `work` does, or rejects with the signal's reason if that aborts first; the work's result is then ignored.
 * The call leaves no listener on a signal that lasts. A race with one promise for all calls would keep each call in
 * memory.
 */
export async function settledOrAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal.reason as Error)
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
 * of work that fails before the abort. Later errors are ignored, because the loop ends anyway.
 */
export async function settledOrStopped(work: Promise<void>, signal: AbortSignal): Promise<void> {
  await settledOrAborted(work, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}
