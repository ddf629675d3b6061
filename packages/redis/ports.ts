import { limitWindowSeconds } from '@sluice/contracts/limits'
import { sessionAgeMsMax, sessionIdleMs } from '@sluice/contracts/session'

/**
 * What Sluice keeps in Redis: counts of limits, sessions, answers of idempotent requests.
 * Adapters: redis.ts (production) and memory.ts (embedded, for one process); both pass conformance.ts.
 */
export interface Redis {
  limiter: Limiter
  sessions: Sessions
  answers: IdempotentAnswers
  /** Resolves when Redis answers; rejects with SluiceError 503 and the reason otherwise. For readiness, so it is cheap. */
  check(): Promise<void>
  /** Waits a moment for calls under way, then ends the connection. */
  close(): Promise<void>
}

/**
 * Counts against limits of a minute (contracts/limits.ts: limitWindowSeconds). A window begins with the first request
 * that it counts. Costs and limits are whole numbers; a cost of 0 always fits.
 */
export interface Limiter {
  /**
   * Counts `cost` if it fits whole into `limit`; else nothing is counted. Never rejects: with Redis away it counts in
   * this process, on top of what was heard last. Answers at once where it need not ask.
   */
  spend(counter: string, cost: number, limit: number): Spent | Promise<Spent>
  /** Takes back what a request was charged that in the end costs nothing (413). Never rejects. */
  giveBack(counter: string, cost: number, limit: number): Promise<void>
  /**
   * What was heard last of a counter, without asking; a full limit when nothing was. `remaining` is never too low, but
   * for what other processes gave back in this window.
   */
  known(counter: string, limit: number): LimitState
}

export interface LimitState {
  /** Never below 0. */
  remaining: number
  /** Unix ms at which the window ends; of one that would begin now when none is open. */
  resetAt: number
}

export interface Spent extends LimitState {
  granted: boolean
}

/** Sessions by the SHA-256 of their token. All throw SluiceError 503 while Redis is away: sessions fail closed. */
export interface Sessions {
  /** Stores a session under the hash of its token. */
  create(tokenHash: string, session: { keyHash: string }): Promise<void>
  /**
   * The session, its idle time begun anew (contracts/session.ts: sessionIdleMs, sessionAgeMsMax in all); undefined when
   * there is none, or none any more.
   */
  find(tokenHash: string): Promise<FoundSession | undefined>
  /** Does nothing when there is none. */
  delete(tokenHash: string): Promise<void>
}

export interface FoundSession {
  keyHash: string
  /** Unix ms at which it ends unless it is used before. */
  expiresAt: number
}

/** First answers of requests with an Idempotency-Key. All throw SluiceError 503 while Redis is away. */
export interface IdempotentAnswers {
  /**
   * Claims `id` for a request with this fingerprint of its body. `new`: carry it out; `running`: another one does so
   * right now; `other`: it was used with another body. A claim ends after claimMs if nobody ends it before: one whose
   * answer was lost on its way here too.
   */
  begin(id: string, fingerprint: string): Promise<Begun>
  /** Keeps the answer, answerMs long; the first one stays. */
  finish(id: string, fingerprint: string, answer: StoredAnswer): Promise<void>
  /** Gives the claim up: the request failed. An answer that is kept stays. */
  abandon(id: string): Promise<void>
}

export type Begun = { state: 'new' | 'running' | 'other' } | { state: 'answered'; answer: StoredAnswer }

export interface StoredAnswer {
  status: number
  /** Plain JSON. */
  data?: unknown
  /** Unix ms. */
  timestamp: number
}

/** How long things last. */
export interface Times {
  limitWindowSeconds: number
  sessionIdleMs: number
  sessionAgeMsMax: number
  /** An idempotent request that takes longer may be carried out a second time. */
  claimMs: number
  answerMs: number
}

export const defaultTimes: Times = {
  limitWindowSeconds,
  sessionIdleMs,
  sessionAgeMsMax,
  claimMs: 60_000,
  answerMs: 24 * 3_600_000,
}

/** What the adapters need of a logger; pino's fits. A line when Redis goes and one when it comes, none per call. */
export interface RedisLogger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}
