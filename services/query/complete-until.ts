import { SluiceError } from '@sluice/contracts/errors'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Logger } from '@sluice/runtime/logger'
import { type Component, pause } from '@sluice/runtime/supervisor'

const defaultIntervalMs = 500

export interface CompleteUntil extends Component {
  /** Until when (Unix ms) everything accepted can be read, as far as is known; 0 before anybody told. Costs nothing. */
  now: () => number
}

/**
 * Asks Postgres again and again, so that no question has to. What was true once stays true: with Postgres away, or a
 * partition of which no writer has told yet, it is what was heard before.
 */
export function completeUntil(
  store: Pick<WatermarkStore, 'completeUntil'>,
  logger: Logger,
  { intervalMs = defaultIntervalMs }: { intervalMs?: number } = {},
): CompleteUntil {
  let known = 0
  let isAway = false

  async function ask(): Promise<void> {
    try {
      known = Math.max(known, await store.completeUntil())
      isAway = false
    } catch (error) {
      if (!(error instanceof SluiceError && error.retryable)) throw error
      if (!isAway) logger.warn({ err: error }, 'complete_until can not be asked for, it stands')
      isAway = true
    }
  }

  return {
    name: 'complete until',
    now: () => known,
    // Before the first question.
    start: ask,
    run: async (signal) => {
      for (;;) {
        await pause(intervalMs, signal)
        if (signal.aborted) return
        await ask()
      }
    },
  }
}
