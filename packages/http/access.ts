import { invalidApiKey } from '@sluice/contracts/errors'
import type { KeyCache } from './key-cache.ts'

/** What decides who is let in, and how often; adapters satisfy the parts (packages/redis, key-cache.ts). */
export interface Access {
  keys: Pick<KeyCache, 'authenticate' | 'authenticateHash'>
  limiter: Limiter
  sessions: Pick<Sessions, 'find'>
  answers: IdempotentAnswers
}

/** Where a count stands: `resetAt` is the window's end in Unix ms. */
export interface LimitState {
  remaining: number
  resetAt: number
}

export interface Spent extends LimitState {
  granted: boolean
}

/** Counts against limits of a minute. Never rejects. */
export interface Limiter {
  /** Counts `cost` if it fits whole into `limit`; else nothing is counted. Answers at once where it need not ask. */
  spend(counter: string, cost: number, limit: number): Spent | Promise<Spent>
  /** Takes back what a request was charged that in the end costs nothing. */
  giveBack(counter: string, cost: number, limit: number): Promise<void>
  /** What was heard last of a counter, without asking; `remaining` never is too low. */
  known(counter: string, limit: number): LimitState
}

/** Sessions by the SHA-256 of their token. Throws SluiceError 503 when they can't be told: sessions fail closed. */
export interface Sessions {
  create(tokenHash: string, session: { keyHash: string }): Promise<void>
  /** The session, its idle time begun anew; `expiresAt` in Unix ms. */
  find(tokenHash: string): Promise<{ keyHash: string; expiresAt: number } | undefined>
  delete(tokenHash: string): Promise<void>
}

export interface StoredAnswer {
  status: number
  data?: unknown
  timestamp: number
}

/** First answers of requests that carry an Idempotency-Key. Throws SluiceError 503 when they can't be told. */
export interface IdempotentAnswers {
  /** Claims `id` for a body of this fingerprint; says what became of an earlier request otherwise. */
  begin(
    id: string,
    fingerprint: string,
  ): Promise<{ state: 'new' | 'running' | 'other' } | { state: 'answered'; answer: StoredAnswer }>
  finish(id: string, fingerprint: string, answer: StoredAnswer): Promise<void>
  /** The request failed: the next one is carried out. */
  abandon(id: string): Promise<void>
}

/** For services without routes of their own: nobody has anything to ask of them. */
export const noAccess: Access = {
  keys: { authenticate: refuse, authenticateHash: refuse },
  limiter: { spend: refuse, giveBack: refuse, known: refuse },
  sessions: { find: refuse },
  answers: { begin: refuse, finish: refuse, abandon: refuse },
}

function refuse(): never {
  throw invalidApiKey()
}
