import type { EventLog } from '@sluice/event-log/log'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { AppError, unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import type { Component } from '@sluice/runtime/supervisor'
import type { PublishLog } from './publisher.ts'

/**
 * The log of a gateway, which publishes nothing to a log that Postgres does not know: its events would be missing in
 * answers whose `complete_until` includes them, until a writer reads it (docs/decisions/017-freshness.md).
 */
export interface RegisteredLog extends PublishLog {
  /** Ends the service when the log is not registered; looks again while Postgres or the log is away. */
  guard: Component
}

export function registeredLog(
  log: Pick<EventLog, 'id' | 'partitions' | 'publish'>,
  store: Pick<WatermarkStore, 'isRegistered'>,
  logger: Pick<Logger, 'warn'>,
): RegisteredLog {
  let isKnown = false
  const isRegistered = async () => (isKnown ||= await store.isRegistered(await log.id()))
  const internal = 'This log is not registered in Postgres. Run "npm run migrate".'
  const check = async (): Promise<void> => {
    if (!(await isRegistered())) throw new AppError('internal', { message: 'Internal server error', internal })
  }
  return {
    guard: schemaGuard('log', check, logger),
    // The publisher asks until it gets the number: this is before the first publish, which may be before the guard's.
    partitions: async () => {
      if (!(await isRegistered())) throw unavailable(internal)
      return log.partitions()
    },
    publish: (blocks, options) => log.publish(blocks, options),
  }
}
