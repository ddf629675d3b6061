import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '@sluice/runtime/logger'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

const intervalMs = 60_000

/** Watches the replication of the log. */
export interface DurabilityWatch extends Component {
  /** Reasons why an event with a 202 could still be lost, as of the last successful poll; for `/readyz`. */
  warnings: () => readonly string[]
}

/**
 * Polls the log's replication at the start and once a minute: a 202 promises three replicas, two of them in sync.
 * `describe` returns one sentence for each weakness. They are logged whenever they change.
 */
export function watchDurability(
  describe: () => Promise<readonly string[]>,
  logger: Pick<Logger, 'warn'>,
): DurabilityWatch {
  let warnings: readonly string[] = []
  const polling = poller({
    name: 'durability watch',
    intervalMs,
    poll: async () => {
      // The readiness check reports an unavailable log; meanwhile the last warnings remain.
      const found = await describe().catch(() => warnings)
      if (!isDeepStrictEqual(found, warnings)) {
        for (const warning of found) {
          logger.warn({ durability: warning }, 'the log is not as durable as a 202 promises')
        }
      }
      warnings = found
    },
  })
  return { ...polling, warnings: () => warnings }
}
