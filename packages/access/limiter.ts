import { type AppError, rateLimited } from '@sluice/runtime/errors'

/**
 * Counts costs against limits per minute (docs/http-interface.md#rate-limits; contracts/rate-limits.ts:
 * limitWindowSeconds). A window opens with the first cost that it counts. Costs and limits are whole numbers; a cost of
 * 0 always fits.
 */
export interface Limiter {
  /**
   * Counts `cost` if all of it fits into `limit`, else nothing. Never rejects: while Redis is unavailable it counts in
   * this process, on top of the last known count. Returns without a promise where no call to Redis is needed.
   */
  consume(counter: string, cost: number, limit: number): Consumption | Promise<Consumption>
  /** Takes back a cost that was counted, e.g. that of a request which is answered 413 or 429. Never rejects. */
  refund(counter: string, cost: number, limit: number): Promise<void>
  /**
   * Returns the state of a counter as this process knows it, without a call to Redis; a full limit for an unknown
   * counter. Other processes may have counted and refunded since this process last asked Redis: `remaining` is too high
   * by their counts and too low by their refunds.
   */
  peek(counter: string, limit: number): LimitState
}

/** How much of a limit is left in its window. */
export interface LimitState {
  /** Never below 0. */
  remaining: number
  /** Unix ms at which the window ends; when none is open, the end of one that would open now. */
  resetAt: number
}

/** The outcome of consuming from a limit, and what is left afterwards. */
export interface Consumption extends LimitState {
  granted: boolean
}

/** The 429 of a limit whose window ends at `resetAt` (Unix ms). */
export function rateLimitedUntil(resetAt: number): AppError {
  return rateLimited(Math.max(1, Math.ceil((resetAt - Date.now()) / 1000)))
}
