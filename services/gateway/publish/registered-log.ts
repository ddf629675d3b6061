import type { EventLog } from '@sluice/event-log/log'
import { requireWholePartitions } from '@sluice/event-log/require-whole-partitions'
import type { ShardStore } from '@sluice/postgres/shards'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { AppError, internalMessage, isRetryable, unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import type { Component } from '@sluice/runtime/supervisor'
import type { PublishLog } from './publisher.ts'

/**
 * The log of a gateway, which publishes nothing to a log that Postgres does not know: its events would be missing in
 * answers whose `complete_until` includes them, until a writer reads it (docs/decisions/017-freshness.md). Neither does it
 * publish to a log whose partitions are not spread evenly over the shards (docs/decisions/042-shards.md).
 */
export interface RegisteredLog extends PublishLog {
  /** Ends the service when the log can't be used; looks again while Postgres or the log is away. */
  guard: Component
  /** Whether ClickHouse has several shards, or may have: the number, which never changes, is not read yet. */
  maySpread: () => boolean
}

/** The log, guarded by what the two stores of Postgres know of it. */
export function registeredLog(
  log: Pick<EventLog, 'id' | 'partitions' | 'publish'>,
  stores: { watermarks: Pick<WatermarkStore, 'isRegistered'>; shards: Pick<ShardStore, 'read'> },
  logger: Pick<Logger, 'warn'>,
): RegisteredLog {
  let shards: number | undefined

  async function check(): Promise<void> {
    if (shards !== undefined) return
    // `migrate` notes the number of shards before it registers the log.
    const noted = await stores.shards.read()
    if (noted === undefined || !(await stores.watermarks.isRegistered(await log.id()))) {
      const internal = 'This log is not registered in Postgres. Run "npm run migrate".'
      throw new AppError('internal', { message: 'Internal server error', internal })
    }
    requireWholePartitions(await log.partitions(), noted)
    shards = noted
  }

  return {
    guard: schemaGuard('log', check, logger),
    maySpread: () => shards !== 1,
    // The publisher asks until it gets the number: this is before the first publish, which may be before the guard's.
    partitions: async () => {
      await check().catch((error: unknown) => {
        throw isRetryable(error) ? error : unavailable(internalMessage(error))
      })
      return log.partitions()
    },
    publish: (blocks, options) => log.publish(blocks, options),
  }
}
