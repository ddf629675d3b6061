/**
 * Claims and results of requests with an `Idempotency-Key` (docs/http-interface.md#idempotency). Every method throws
 * AppError `unavailable` while Redis is unavailable.
 */
export interface IdempotencyStore {
  /**
   * Claims `id` for a request whose body has this fingerprint. The caller handles the request only if the outcome is
   * `new`. A claim that is neither completed nor released expires after a minute, even if the reply to it was lost.
   * `owner` names the attempt: another one may claim the id when this claim has expired. `keyId` names the API key, whose
   * stored results are limited to `idempotencyLimits.storedBytesMax`.
   */
  claim(id: string, fingerprint: string, owner: string, keyId: string): Promise<ClaimResult>
  /** Stores the result for 24 hours, and counts its bytes for the API key. Does not replace a stored result. */
  complete(id: string, fingerprint: string, answer: StoredResponse, keyId: string): Promise<void>
  /** Ends the claim of an attempt that failed. Removes neither a stored result nor the claim of another attempt. */
  release(id: string, owner: string): Promise<void>
}

/**
 * The outcome of a claim. `new`: the id was not claimed before; `running`: its request has no result yet; `other`: it
 * was already used with a different body; `answered`: its result is stored; `full`: it would be new, but the API key has no room for
 * another result until `resetAt`, Unix ms.
 */
export type ClaimResult =
  | { state: 'new' | 'running' | 'other' }
  | { state: 'answered'; answer: StoredResponse }
  | { state: 'full'; resetAt: number }

/** The response to a request, as it is repeated for the same idempotency key. */
export interface StoredResponse {
  status: number
  /** Plain JSON. */
  data?: unknown
  /** Unix ms. */
  timestamp: number
}
