import { randomInt } from 'node:crypto'
import pRetry from 'p-retry'

export interface RepeatOptions {
  /** Ends the waiting; the promise rejects with its reason then. */
  signal: AbortSignal
  /** Told of each failure that is followed by another attempt. */
  onFailure: (error: Error, attempt: number) => void
  /** A failure that no repetition mends: it is thrown. */
  isFinal?: (error: unknown) => boolean
}

/**
 * Does `work` until it succeeds: after 0.1 s at first, then twice as long each time up to 5 to 10 s. The waits are drawn,
 * so that many partitions don't come back to a server that was away at the same moment.
 */
export function repeat<T>(work: () => Promise<T>, { signal, onFailure, isFinal }: RepeatOptions): Promise<T> {
  return pRetry(work, {
    retries: Infinity,
    minTimeout: 100,
    maxTimeout: randomInt(5_000, 10_000),
    factor: 2,
    randomize: true,
    signal,
    shouldRetry: ({ error }) => isFinal?.(error) !== true,
    onFailedAttempt: ({ error, attemptNumber }) => {
      if (isFinal?.(error) !== true) onFailure(error, attemptNumber)
    },
  })
}
