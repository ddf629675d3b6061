/**
 * Whether a signal has aborted. A function, because the compiler would assume that `signal.aborted` still has the value
 * that was read before an await.
 */
export function isAborted(signal: AbortSignal): boolean {
  return signal.aborted
}
