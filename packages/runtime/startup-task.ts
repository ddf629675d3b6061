import { withDeadline } from './deadline.ts'
import { isRetryable, unavailable } from './errors.ts'
import { settledOrStopped } from './settled-or-aborted.ts'
import { sleep } from './sleep.ts'
import type { Component } from './supervisor.ts'

export interface StartupTaskOptions {
  name: string
  /**
   * Does the work. After a retryable rejection (AppError.retryable) it is called again; any other rejection is a
   * failure of the component.
   */
  attempt: () => Promise<void>
  /** The pause before each further attempt. */
  retryMs: number
  /** Called when the attempt at the start has failed because the engine is unavailable. */
  onUnavailable?: () => void
  /** The start waits no longer for its attempt; tests shorten it. */
  startTimeoutMs?: number
}

const defaultStartTimeoutMs = 3_000

/**
 * Creates a component that does its work once: at its start, or later as soon as the engine is there. The start itself
 * does not wait for an engine that is unavailable or hangs, nor does a stop.
 */
export function startupTask({
  name,
  attempt,
  retryMs,
  onUnavailable,
  startTimeoutMs = defaultStartTimeoutMs,
}: StartupTaskOptions): Component {
  let isDone = false

  async function finish(attempted: Promise<void>): Promise<void> {
    try {
      await attempted
      isDone = true
    } catch (error) {
      if (!isRetryable(error)) throw error
    }
  }

  return {
    name,
    start: async () => {
      const onTimeout = () => unavailable(`${name}: the engine does not answer`)
      await finish(withDeadline(attempt(), startTimeoutMs, onTimeout))
      if (!isDone) onUnavailable?.()
    },
    run: async (signal) => {
      while (!isDone) {
        await sleep(retryMs, signal)
        if (signal.aborted) return
        await settledOrStopped(finish(attempt()), signal)
      }
    },
  }
}
