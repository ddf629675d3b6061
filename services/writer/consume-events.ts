import type { Lane } from '@sluice/contracts/lanes'
import type { ReadBudget } from '@sluice/event-log/consumer/read-budget'
import type { EventLog, LogConsumer, PartitionLag } from '@sluice/event-log/log'
import { requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { writerGroup } from '@sluice/event-log/writer-group'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { internalMessage } from '@sluice/runtime/errors'
import type { Logger } from '@sluice/runtime/logger'
import type { Metrics } from '@sluice/runtime/metrics'
import { type Component, FatalError } from '@sluice/runtime/supervisor'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { tracedCall } from '@sluice/runtime/tracing'
import { consumeClaim } from './consume-claim.ts'
import type { LanePolicy } from './lane-policy.ts'
import { type WriterMetrics, writerMetrics } from './metrics.ts'
import type { BatchContext } from './process-batch.ts'

/**
 * Time that a running insert gets to finish after a stop. A standalone process has 3 s left when its last request has
 * ended (packages/http/stop-times.ts).
 */
const stopGraceMs = 2_000

export interface ConsumeDeps {
  logs: Readonly<Record<Lane, EventLog>>
  /** The log of rows that can't be stored, which `deadLetterUrl` names. */
  deadLetters: Pick<EventLog, 'partitions' | 'publish'>
  inserter: Pick<EventInserter, 'storeId' | 'shards' | 'insert' | 'findBadRows'>
  logger: Logger
  metrics: Metrics
  clock: Pick<SynchronizedClock, 'now'>
  /** Memory for blocks, which the consumers of a process share; unlimited by default. */
  budget?: ReadBudget
}

/** The consumer of one log as a component. */
export interface EventConsumer extends Component {
  /** One line for each partition whose batch is being retried, for /readyz. */
  warnings: () => readonly string[]
  /** Consumer lag of the partitions that this writer owns. */
  lag: () => readonly PartitionLag[]
  /** Whether this writer has joined its consumer group; see LogConsumer. */
  hasJoined: () => boolean
}

const names: Readonly<Record<Lane, string>> = { live: 'event consumer', backfill: 'backfill consumer' }

/**
 * Moves the events of a lane from the log of the lane into ClickHouse. The partitions run in parallel
 * (consume-claim.ts), unless `policy.reserve` makes them take turns.
 */
export function eventConsumer(policy: LanePolicy, deps: ConsumeDeps): EventConsumer {
  const { logs, deadLetters, logger, clock } = deps
  const { lane } = policy
  const log = logs[lane]
  let consumer: LogConsumer | undefined
  const lag = () => consumer?.lag() ?? []
  const metrics = writerMetrics(deps.metrics, lane, { log, lag, clock })
  const stalledPartitions = new Map<number, string>()
  const context: Omit<BatchContext, 'logId'> = {
    policy,
    inserter: measuredInserter(deps.inserter, metrics),
    deadLetters,
    metrics,
    clock,
    logger,
    stalledPartitions,
  }

  return {
    name: names[lane],
    lag,
    hasJoined: () => consumer?.hasJoined() ?? false,
    warnings: () =>
      [...stalledPartitions].map(
        ([partition, reason]) =>
          `${lane === 'backfill' ? 'backfill log: ' : ''}partition ${partition} waits: ${reason}`,
      ),
    run: async (stopping) => {
      // Both logs use the id of the live log: copies of an event may be in either log, so the inserts of a partition
      // must exclude each other.
      const [logId, storeId] = await Promise.all([logs.live.id(), deps.inserter.storeId()])
      const [partitions, shards] = await Promise.all([log.partitions(), deps.inserter.shards()])
      try {
        requirePartitionsMultipleOf(shards, partitions)
      } catch (error) {
        throw new FatalError(internalMessage(error), { cause: error })
      }
      const graceExpired = new AbortController()
      const member = log.consumer({
        group: writerGroup(storeId),
        ...policy.batch,
        ...(deps.budget && { budget: deps.budget }),
        onClaim: (claim) =>
          consumeClaim(claim, { requested: stopping, graceExpired: graceExpired.signal }, { ...context, logId }),
      })
      consumer = member
      const stop = (): void => {
        setTimeout(() => graceExpired.abort(new Error('the writer stops')), stopGraceMs).unref()
        void member.stop()
      }
      stopping.addEventListener('abort', stop)
      try {
        if (!stopping.aborted) await member.run()
      } finally {
        stopping.removeEventListener('abort', stop)
        await member.stop()
      }
    },
  }
}

/** The inserter, which records the duration of its inserts as a metric and a span. */
function measuredInserter(
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>,
  metrics: Pick<WriterMetrics, 'insertSeconds'>,
): Pick<EventInserter, 'insert' | 'findBadRows'> {
  return {
    findBadRows: (lines, options) => inserter.findBadRows(lines, options),
    insert: async (batch, options) => {
      const stopTimer = metrics.insertSeconds.startTimer({ kind: batch.hasUndated ? 'undated' : 'dated' })
      const result = await tracedCall('insert', { 'db.system.name': 'clickhouse' }, () =>
        inserter.insert(batch, options),
      )
      stopTimer()
      return result
    },
  }
}
