/** Limits of `Idempotency-Key` (docs/limits.md). */
export const idempotencyLimits = {
  keyLengthMax: 255,
  /**
   * Bytes of the answers of one API key that are kept at once, as they are stored: compressed, encrypted, with the
   * hashes of requests. They are counted from the first answer until it is forgotten.
   */
  storedBytesMax: 16 * 1024 * 1024,
} as const

/** The error of a repeat (409) whose first request has no answer yet. */
export const underWayError = 'A request with this Idempotency-Key is still under way'
