import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '@sluice/runtime/logger'
import { type Component, pause } from '@sluice/runtime/supervisor'

const intervalMs = 60_000

export interface DurabilityWatch extends Component {
  /** Why an event that was answered 202 could still be lost, as of the last look; for /readyz. */
  warnings: () => readonly string[]
}

/**
 * A 202 is worth what the log's replication is worth: looks at it at the start and once a minute, and logs what is
 * weaker than three replicas, two of them in sync, whenever that changes.
 */
export function watchDurability(describe: () => Promise<readonly string[]>, logger: Logger): DurabilityWatch {
  let warnings: readonly string[] = []
  return {
    name: 'durability watch',
    warnings: () => warnings,
    run: async (signal) => {
      while (!signal.aborted) {
        // While the log is away its check says so; what was found before still stands.
        const found = await describe().catch(() => warnings)
        if (!isDeepStrictEqual(found, warnings))
          for (const warning of found)
            logger.warn({ durability: warning }, 'the log is not as durable as a 202 promises')
        warnings = found
        await pause(intervalMs, signal)
      }
    },
  }
}
