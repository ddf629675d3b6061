import type { EventLog } from '@sluice/event-log/log'
import { partitionsReadAtStart, requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { oneShardLeaseMs, placementShards, type Shards, type ShardStore } from '@sluice/postgres/shards'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { internalError, internalMessage, isRetryable, unavailable } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import { untilSuccessful } from '@sluice/runtime/once'
import { poller } from '@sluice/runtime/poller'
import { schemaGuard } from '@sluice/runtime/schema-guard'
import { type Component, FatalError } from '@sluice/runtime/supervisor'
import type { PublishLog } from './publisher.ts'

/**
 * The log of a gateway, which publishes nothing to a log that Postgres does not know. Until a writer reads such a log,
 * its events would be missing in answers whose `complete_until` includes them (docs/decisions/017-freshness.md).
 * Neither does the gateway publish to a log whose partitions are not spread evenly over the shards
 * (docs/decisions/042-shards.md).
 */
export interface RegisteredLog extends PublishLog {
  /** Ends the service when the log can't be used; looks again while Postgres or the log is unavailable. */
  guard: Component
  /**
   * Reads again and again whether there is still one shard. The service has read the number of partitions at its start.
   * When that number can't be spread over the present or future shards, this component ends the service, so that the
   * next start reads the present number.
   */
  watch: Component
  /** False only while Postgres has said lately that there is one shard, and that no further ones are being added. */
  mayHaveSeveralShards: () => boolean
}

const defaultWatchMs = 5_000

/** The log, which publishes nothing before Postgres has confirmed its registration and its shards. */
export function registeredLog(
  log: Pick<EventLog, 'id' | 'partitions' | 'publish'>,
  stores: { watermarks: Pick<WatermarkStore, 'isRegistered'>; shards: Pick<ShardStore, 'readState'> },
  logger: Pick<Logger, 'warn'>,
  { leaseMs = oneShardLeaseMs, watchMs = defaultWatchMs } = {},
): RegisteredLog {
  /** `performance.now()` until which the last reading, one shard, may be relied on. */
  let oneShardUntil = -Infinity

  async function readShards(): Promise<Shards | undefined> {
    const readAt = performance.now()
    const shards = await stores.shards.readState()
    const isOne = shards?.number === 1 && shards.doublingSince === null
    oneShardUntil = isOne ? readAt + leaseMs : -Infinity
    return shards
  }

  const check = untilSuccessful(async () => {
    // `migrate` records the number of shards before it registers the log.
    const shards = await readShards()
    if (shards === undefined || !(await stores.watermarks.isRegistered(await log.id()))) {
      throw internalError('This log is not registered in Postgres. Run "npm run migrate".')
    }
    await requirePlacement(shards)
  })

  async function requirePlacement(shards: Shards): Promise<void> {
    requirePartitionsMultipleOf(placementShards(shards), await log.partitions())
  }

  return {
    guard: schemaGuard('log', check, logger),
    watch: poller({
      name: 'number of shards',
      intervalMs: watchMs,
      poll: async () => {
        const shards = await readShards()
        if (shards === undefined) return
        await requirePlacement(shards).catch((error: unknown) => {
          if (isRetryable(error)) throw error
          throw new FatalError(`${internalMessage(error)} ${partitionsReadAtStart}`, { cause: error })
        })
      },
    }),
    mayHaveSeveralShards: () => performance.now() >= oneShardUntil,
    // The publisher calls this function before its first publish, which may be before `guard` has run: so the check is
    // made here too.
    partitions: async () => {
      await check().catch((error: unknown) => {
        throw isRetryable(error) ? error : unavailable(internalMessage(error))
      })
      return log.partitions()
    },
    publish: (blocks, options) => log.publish(blocks, options),
  }
}
