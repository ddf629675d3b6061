import { isRetryable } from '@sluice/runtime/errors'
import { retry } from '@sluice/runtime/retry'

/** A failover of Postgres may take this long, in ms. */
const failoverMs = 5_000

/**
 * Calls `work`, and when its outcome is unknown, `again` for some seconds: the connection may have broken after
 * Postgres had committed. Without the response, the client would not learn a secret or an id that only this process
 * knows, and would do twice what it repeats. `again` must change nothing that `work` has stored, and wait for a
 * transaction of `work` that is still to commit; it returns what `work` would have. Failures after which Postgres has
 * certainly changed nothing, such as a timeout of the statement, are tried again as well. Throws what the last call
 * throws.
 */
export async function retryUnknownOutcome<T>(work: () => Promise<T>, again: () => Promise<T> = work): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isRetryable(error)) throw error
    return retry(again, { timeoutMs: failoverMs, isPermanent: (failure) => !isRetryable(failure) })
  }
}
