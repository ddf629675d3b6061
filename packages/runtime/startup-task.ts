import { isRetryable } from './errors.ts'
import { type Component, sleep } from './supervisor.ts'

export interface StartupTaskOptions {
  name: string
  /**
   * Does the work. After a retryable rejection (AppError.retryable) it is called again; any other rejection is the
   * component's.
   */
  attempt: () => Promise<void>
  /** The pause before each further attempt. */
  retryMs: number
  /** Called when the attempt at the start has failed because the engine is away. */
  onUnavailable?: () => void
}

/**
 * Creates a component that does its work once: at its start, or later as soon as the engine is there. The start itself
 * does not wait for an engine that is away.
 */
export function startupTask({ name, attempt, retryMs, onUnavailable }: StartupTaskOptions): Component {
  let isDone = false

  async function attemptOnce(): Promise<void> {
    try {
      await attempt()
      isDone = true
    } catch (error) {
      if (!isRetryable(error)) throw error
    }
  }

  return {
    name,
    start: async () => {
      await attemptOnce()
      if (!isDone) onUnavailable?.()
    },
    run: async (signal) => {
      while (!isDone) {
        await sleep(retryMs, signal)
        if (signal.aborted) return
        await attemptOnce()
      }
    },
  }
}
