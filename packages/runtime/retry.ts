import { randomInt } from 'node:crypto'
import pRetry from 'p-retry'

/** The delays between attempts. */
export interface RetryDelays {
  /** Delay before the second attempt, in ms; it doubles with each further attempt. */
  firstMs: number
  /** Longest delay, in ms. The same as `firstMs`: all delays are equal. */
  longestMs: number
}

export interface RetryOptions {
  /** Ends the retries; the promise then rejects with the signal's reason. */
  signal?: AbortSignal
  /** Called after a failed attempt that will be retried, with the number of that attempt, from 1. */
  onFailedAttempt?: (error: Error, attempt: number) => void
  /** True for a failure that a retry can't resolve: the promise rejects with it. */
  isPermanent?: (error: unknown) => boolean
  /** Exact delays; without them, see `retry`. */
  delays?: RetryDelays
  /** The first failure later than this many ms after the call is not retried: the promise rejects with it. */
  timeoutMs?: number
}

/**
 * Calls `work` until it succeeds and resolves with its result. Unless `delays` says otherwise, the delay is 0.1 to 0.2
 * s at first and doubles each time up to 5 to 10 s; it is random, so that many partitions do not return to a recovered
 * server at the same moment.
 *
 * If a call of `work` succeeds although the signal has aborted meanwhile, the promise resolves, so that nobody repeats
 * the work.
 *
 * A TypeError is never retried (p-retry treats it as a bug, except fetch's network errors), nor is a thrown value that
 * is no Error. The promise rejects with such a value.
 */
export async function retry<T>(
  work: () => Promise<T>,
  { signal, onFailedAttempt, isPermanent, delays, timeoutMs = Infinity }: RetryOptions,
): Promise<T> {
  let done: { result: T } | undefined
  const attempt = async (): Promise<T> => {
    const result = await work()
    done = { result }
    return result
  }
  try {
    return await pRetry(attempt, {
      retries: Infinity,
      minTimeout: delays?.firstMs ?? 100,
      maxTimeout: delays?.longestMs ?? randomInt(5_000, 10_000),
      factor: 2,
      randomize: delays === undefined,
      maxRetryTime: timeoutMs,
      ...(signal && { signal }),
      shouldRetry: ({ error }) => isPermanent?.(error) !== true,
      onFailedAttempt: ({ error, attemptNumber }) => {
        if (isPermanent?.(error) !== true) onFailedAttempt?.(error, attemptNumber)
      },
    })
  } catch (error) {
    // p-retry looks at the signal after a success, too.
    if (done !== undefined) return done.result
    throw error
  }
}
