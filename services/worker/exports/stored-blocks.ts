import { hasReached } from '@sluice/event-log/has-reached'
import type { EventLog } from '@sluice/event-log/log'
import type { Clock } from '@sluice/runtime/clock'

const pollMs = 100

/** Waits for blocks of the logs that the writers have not stored yet. */
export interface StoredBlocks {
  /**
   * Resolves to true once the writers have stored every block that was acknowledged before the call, to false after
   * `timeoutMs`. Throws AppError `unavailable` while a log is, and the signal's reason when it is aborted.
   */
  wait(options: { signal: AbortSignal; timeoutMs: number }): Promise<boolean>
}

/** `group` names the writers' group (`writerGroup`). */
export function storedBlocks({
  logs,
  group,
  clock,
}: {
  logs: readonly Pick<EventLog, 'endOffsets' | 'committedOffsets'>[]
  group: () => Promise<string>
  clock: Clock
}): StoredBlocks {
  return {
    wait: async ({ signal, timeoutMs }) => {
      const until = clock.now() + timeoutMs
      const waited = await Promise.all(
        logs.map(async (log) => ({ log, endOffsets: new Map((await log.endOffsets()).entries()) })),
      )
      for (;;) {
        const stored = await Promise.all(
          waited.map(async ({ log, endOffsets }) => hasReached(await log.committedOffsets(await group()), endOffsets)),
        )
        const areStored = stored.every(Boolean)
        if (areStored || clock.now() >= until) return areStored
        await clock.sleep(pollMs, signal)
        signal.throwIfAborted()
      }
    },
  }
}
