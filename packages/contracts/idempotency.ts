/** Limits of requests with an `Idempotency-Key` (docs/http-interface.md#idempotency). */
export const idempotencyLimits = {
  /**
   * Bytes of the answers that are kept for one API key, in the form in which they are stored, so that no key takes the
   * place of the answers of others.
   */
  answerBytesMax: 8 * 1024 * 1024,
} as const
