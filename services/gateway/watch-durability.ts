import { isDeepStrictEqual } from 'node:util'
import { internalMessage } from '@sluice/runtime/errors'
import { failureName } from '@sluice/runtime/health'
import type { Logger } from '@sluice/runtime/logger'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

const intervalMs = 60_000
const unchecked = 'The durability of the event log could not be checked'

/** Watches the replication of the log. */
export interface DurabilityWatch extends Component {
  /**
   * Reasons why an event with a 202 could still be lost, as of the last successful poll; for `/readyz`. Undefined
   * before the first poll has ended.
   */
  warnings: () => readonly string[] | undefined
}

/**
 * Polls the log's replication at the start and once a minute: a 202 promises three replicas, two of them in sync.
 * `describe` returns one sentence for each weakness. They are logged whenever they change. It is also a warning if the
 * log has never been checked, because it can't be reached or denies access to its settings.
 */
export function watchDurability(
  describe: () => Promise<readonly string[]>,
  logger: Pick<Logger, 'warn'>,
): DurabilityWatch {
  let warnings: readonly string[] | undefined
  /**
   * Logs that the log could not be checked, and returns the warning. `/readyz` may be public, so the warning gives only
   * the kind of failure; the service's log line has the full text.
   */
  const warnUnchecked = (error: unknown): string => {
    logger.warn({ reason: internalMessage(error) }, unchecked)
    return `${unchecked}: ${failureName(error)}`
  }
  const polling = poller({
    name: 'durability watch',
    intervalMs,
    poll: async () => {
      let found: readonly string[]
      try {
        found = await describe()
      } catch (error) {
        // The readiness check reports an unavailable log; meanwhile the last warnings remain.
        warnings ??= [warnUnchecked(error)]
        return
      }
      if (!isDeepStrictEqual(found, warnings)) {
        for (const warning of found) {
          logger.warn({ durability: warning }, 'event log is less durable than a 202 promises')
        }
      }
      warnings = found
    },
  })
  return { ...polling, warnings: () => warnings }
}
