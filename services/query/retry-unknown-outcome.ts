import { isRetryable } from '@sluice/runtime/errors'
import { retry } from '@sluice/runtime/retry'

/** A failover of Postgres may take this long, in ms. */
const failoverMs = 5_000

/**
 * Calls `work`. When its outcome is unknown, because the connection may have broken after Postgres had committed, calls
 * `again` for some seconds. Without an answer, the client would not learn a secret or an id that only this process
 * knows, and a repeated request would do its work twice. `again` must not change what `work` has stored, and must wait
 * for a transaction of `work` that may still commit. It returns what `work` would have returned. Failures after which
 * Postgres has certainly changed nothing, such as a timeout of the statement, are tried again as well. Throws what the
 * last call throws.
 */
export async function retryUnknownOutcome<T>(work: () => Promise<T>, again: () => Promise<T> = work): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isRetryable(error)) throw error
    return retry(again, { timeoutMs: failoverMs, isPermanent: (failure) => !isRetryable(failure) })
  }
}
