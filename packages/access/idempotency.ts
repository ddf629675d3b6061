/**
 * Claims and results of requests with an `Idempotency-Key` (docs/http-interface.md#idempotency). Every method throws
 * AppError 503 while Redis is away.
 */
export interface IdempotencyStore {
  /**
   * Claims `id` for a request with this fingerprint of its body. `new`: the caller carries the request out; `running`:
   * another request with the id is under way; `other`: the id was used with another body; `answered`: the stored result.
   * A claim that is neither completed nor released ends after a minute, also when the reply to it was lost.
   */
  claim(id: string, fingerprint: string): Promise<ClaimResult>
  /** Stores the result for 24 hours; a result that is stored already stays. */
  complete(id: string, fingerprint: string, answer: StoredResult): Promise<void>
  /** Ends the claim of a request that failed; a stored result stays. */
  release(id: string): Promise<void>
}

/**
 * The outcome of a claim: the key is new, its request is still running, it was used with another body, or its result is
 * stored.
 */
export type ClaimResult = { state: 'new' | 'running' | 'other' } | { state: 'answered'; answer: StoredResult }

/** The answer to a request, as it is repeated for the same idempotency key. */
export interface StoredResult {
  status: number
  /** Plain JSON. */
  data?: unknown
  /** Unix ms. */
  timestamp: number
}
