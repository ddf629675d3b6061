import { type AppError, isRetryable } from './errors.ts'
import { settledOrStopped } from './settled-or-aborted.ts'
import { sleep } from './sleep.ts'
import type { Component } from './supervisor.ts'

export interface PollerOptions {
  name: string
  /** The sleep between the end of one poll and the start of the next. */
  intervalMs: number
  /** Reads the engine once and keeps the result. A rejection leaves the result of the last successful poll in place. */
  poll: () => Promise<void>
  /** Called once after the last poll, before the component stops. */
  stop?: () => Promise<void>
  /** True: the component's start waits for the first poll, which may fail because the engine is unavailable. */
  pollsAtStart?: boolean
  /** Called at the first of several polls in a row that fail because the engine is unavailable. */
  onUnavailable?: (error: AppError) => void
  /** The longest sleep after a poll that failed because the engine was unavailable; a minute by default. */
  unavailableMsMax?: number
}

/**
 * Creates a component that polls an engine from its start until its stop. The stop does not wait for a poll under way,
 * because the engine may hang and nobody needs the result any more. After a retryable failure (AppError.retryable), the
 * next poll follows after the usual sleep, or after a minute if that is shorter. Any other failure is a failure of the
 * component, and the supervisor runs it again.
 */
export function poller({
  name,
  intervalMs,
  poll,
  stop,
  pollsAtStart = false,
  onUnavailable,
  unavailableMsMax = 60_000,
}: PollerOptions): Component {
  let isUnavailable = false

  async function pollOnce(): Promise<void> {
    try {
      await poll()
      isUnavailable = false
    } catch (error) {
      if (!isRetryable(error)) throw error
      if (!isUnavailable) onUnavailable?.(error)
      isUnavailable = true
    }
  }

  const sleepUntilNext = (signal: AbortSignal): Promise<void> =>
    sleep(isUnavailable ? Math.min(intervalMs, unavailableMsMax) : intervalMs, signal)

  let isFirstRun = true
  return {
    name,
    ...(pollsAtStart && { start: pollOnce }),
    ...(stop && { stop }),
    run: async (signal) => {
      // The start has already polled. A run that follows a failure has already waited.
      if (pollsAtStart && isFirstRun) await sleepUntilNext(signal)
      isFirstRun = false
      while (!signal.aborted) {
        await settledOrStopped(pollOnce(), signal)
        await sleepUntilNext(signal)
      }
    },
  }
}
