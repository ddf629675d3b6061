/**
 * Sign-in sessions (their lifetimes: packages/contracts/session.ts) by the SHA-256 of their token
 * (docs/http-interface.md#sessions). Every method throws AppError `unavailable` while Redis is unavailable: without
 * Redis no session is valid.
 */
export interface Sessions {
  /** Stores a session under the hash of its token. */
  create(tokenHash: string, session: { keyHash: string }): Promise<void>
  /**
   * Returns a session and restarts its idle time (contracts/session.ts: sessionIdleMs, at most sessionAgeMsMax in all);
   * undefined when there is none, or when it has ended.
   */
  find(tokenHash: string): Promise<FoundSession | undefined>
  /** Ends a session; does nothing when there is none. */
  delete(tokenHash: string): Promise<void>
}

/** A session that has not ended. */
export interface FoundSession {
  keyHash: string
  /** Unix ms at which the session ends unless it is used before. */
  expiresAt: number
}
