import type { IdempotencyStore } from '@sluice/access/idempotency'
import type { Limiter } from '@sluice/access/limiter'
import type { Sessions } from '@sluice/access/sessions'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import { limitWindowSeconds } from '@sluice/contracts/rate-limits'
import { sessionAgeMsMax, sessionIdleMs, signInCodeMs } from '@sluice/contracts/session'
import type { Logger } from '@sluice/runtime/logger'

/**
 * The stores of Sluice in Redis: counts of limits, sessions, sign-in codes, results of idempotent requests.
 * Adapters: redis.ts (production) and memory.ts (embedded, for one process); both pass the suites in conformance/.
 */
export interface Redis {
  limiter: Limiter
  sessions: Sessions
  signInCodes: SignInCodes
  idempotency: IdempotencyStore
  /**
   * Resolves when Redis replies; rejects with AppError 503 and the reason otherwise. It is cheap: readiness calls it.
   */
  check(): Promise<void>
  /** Waits a moment for the calls under way, then ends the connection. */
  close(): Promise<void>
}

/** Lifetimes of everything that is kept in Redis. */
export interface Times {
  limitWindowSeconds: number
  sessionIdleMs: number
  sessionAgeMsMax: number
  signInCodeMs: number
  /** An idempotent request that takes longer than its claim lasts may be carried out a second time. */
  claimMs: number
  /** The result of an idempotent request is repeated for this long. */
  resultMs: number
}

/** The lifetimes in production; tests shorten them. */
export const defaultTimes: Times = {
  limitWindowSeconds,
  sessionIdleMs,
  sessionAgeMsMax,
  signInCodeMs,
  claimMs: 60_000,
  resultMs: 24 * 3_600_000,
}

/**
 * The log levels that the adapters use: one line when Redis becomes unavailable and one when it is back, none per call.
 */
export type RedisLogger = Pick<Logger, 'debug' | 'info' | 'warn'>
