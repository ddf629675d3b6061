/** Settles as `work` does, or rejects with `late()` after `ms`; the work itself goes on. Leaves no timer behind. */
export async function withDeadline<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    deadline.reject(late())
  }, ms)
  try {
    return await Promise.race([work, deadline.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves after `ms`, or at once when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const done = Promise.withResolvers<undefined>()
  const finish = () => {
    done.resolve(undefined)
  }
  const timer = setTimeout(finish, ms)
  signal.addEventListener('abort', finish, { once: true })
  await done.promise
  clearTimeout(timer)
  signal.removeEventListener('abort', finish)
}
