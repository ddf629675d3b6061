import type { IdempotencyStore } from '@sluice/access/idempotency'
import type { Limiter } from '@sluice/access/limiter'
import type { Sessions } from '@sluice/access/sessions'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import { limitWindowSeconds } from '@sluice/contracts/rate-limits'
import { sessionAgeMsMax, sessionIdleMs, signInCodeMs } from '@sluice/contracts/session'
import { dayMs } from '@sluice/contracts/time-units'
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
   * Resolves when Redis runs scripts and stores what they write; rejects with AppError `unavailable` and the reason
   * otherwise. Readiness checks call it, so it must be cheap.
   */
  check(): Promise<void>
  /** Waits briefly for running calls, then ends the connection. */
  close(): Promise<void>
}

/** Lifetimes of the entries in Redis. */
export interface RedisLifetimes {
  limitWindowSeconds: number
  sessionIdleMs: number
  sessionAgeMsMax: number
  signInCodeMs: number
  /** If an idempotent request takes longer than its claim lasts, it may be executed a second time. */
  claimMs: number
  /** For this long, the result of an idempotent request is returned to repeated requests. */
  resultMs: number
}

/** The lifetimes in production; tests shorten them. */
export const redisLifetimes: RedisLifetimes = {
  limitWindowSeconds,
  sessionIdleMs,
  sessionAgeMsMax,
  signInCodeMs,
  claimMs: 60_000,
  resultMs: dayMs,
}

/**
 * The log levels that the adapters use. They log one line when Redis becomes unavailable and one when it is available
 * again, but none per call.
 */
export type RedisLogger = Pick<Logger, 'debug' | 'info' | 'warn'>
