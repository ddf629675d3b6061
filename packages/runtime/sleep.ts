import { setTimeout } from 'node:timers/promises'

/** Resolves after `ms`, or at once when `signal` aborts. Keeps the process running meanwhile. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  // Nothing but the abort rejects.
  return setTimeout(ms, undefined, { signal }).catch(() => undefined)
}
