/**
 * Sign-in codes by their SHA-256 (docs/http-interface.md#sign-in-codes). Every method throws AppError `unavailable`
 * while Redis is unavailable.
 */
export interface SignInCodes {
  /** Stores a code, which is good for one session of a key within contracts/session.ts: signInCodeMs. */
  create(codeHash: string, signIn: { keyHash: string }): Promise<void>
  /**
   * Returns the key that a code signs in, without using the code up; undefined when there is no such code, or when it
   * has expired.
   */
  find(codeHash: string): Promise<{ keyHash: string } | undefined>
  /**
   * Uses a code up and returns its key. Only one of concurrent calls gets the key. Undefined when there is no such
   * code, or when it has expired.
   */
  take(codeHash: string): Promise<{ keyHash: string } | undefined>
}
