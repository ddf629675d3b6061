/**
 * Settles as `work` does, or rejects with the error of `late` after `ms`; the work itself continues. Leaves no timer
 * behind. If the process was suspended, an answer may have arrived in time without being read. Such an answer counts:
 * the event loop runs its timers first, then reads its sockets, and then runs the callbacks of `setImmediate`.
 */
export async function withDeadline<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    setImmediate(() => deadline.reject(late()))
  }, ms)
  try {
    return await Promise.race([work, deadline.promise])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Runs `work` with a signal that aborts when `signal` does, or after `ms` with the reason `late()`. Settles when `work`
 * does, and as it does. Leaves no timer behind.
 */
export async function abortedAfter<T>(
  signal: AbortSignal,
  { ms, late }: { ms: number; late: () => Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(late()), ms)
  try {
    return await work(AbortSignal.any([signal, deadline.signal]))
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves when `work` settles, whatever its outcome, or after `ms`. Leaves no timer behind. */
export async function settledOrAfter(work: Promise<unknown>, ms: number): Promise<void> {
  const timer = Promise.withResolvers<undefined>()
  const handle = setTimeout(() => timer.resolve(undefined), Math.ceil(ms))
  try {
    await Promise.race([Promise.allSettled([work]), timer.promise])
  } finally {
    clearTimeout(handle)
  }
}
