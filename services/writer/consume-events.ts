import { availableParallelism } from 'node:os'
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
import { tracedCall } from '@sluice/runtime/tracing'
import { backfillPace } from './backfill-pace.ts'
import { consumeClaim } from './consume-claim.ts'
import { insertSlots } from './insert-slots.ts'
import { liveTraffic } from './live-traffic.ts'
import { type WriterMetrics, writerMetrics } from './metrics.ts'
import type { BatchContext } from './process-batch.ts'

/** With 20,000 to 50,000 rows in a batch, ClickHouse takes the least CPU per row (docs/benchmarks.md). */
const batchRowsMax = 50_000
const batchBytesMax = 16 * 1024 * 1024
/**
 * Wait for further blocks. With a shorter wait there are more inserts, and events wait for these
 * (docs/decisions/022-small-inserts.md).
 */
const lingerMsDefault = 100
/** A batch of the backfill log may become one statement, and each month in it costs as much as thousands of rows. */
const backfillBatchRowsMax = 200_000
const backfillBatchBytesMax = 32 * 1024 * 1024
/**
 * Time that a running insert gets to finish after a stop. A standalone process has 3 s left when its last request has
 * ended (packages/http/stop-times.ts).
 */
const stopGraceMs = 2_000

export interface ConsumeDeps {
  log: EventLog
  /** For the consumer of the backfill log: the backfill log of `log`, and the consumer lag of the live log. */
  backfill?: { log: EventLog; liveLag: () => readonly PartitionLag[] }
  /** The log of rows that can't be stored, which `deadLetterUrl` names. */
  deadLetters: Pick<EventLog, 'partitions' | 'publish'>
  inserter: Pick<EventInserter, 'storeId' | 'shards' | 'insert' | 'findBadRows'>
  logger: Logger
  metrics: Metrics
  lingerMs?: number
  /** Maximum number of concurrent inserts of the live log. By default the number of cores, and at least 2. */
  insertsMax?: number
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

/**
 * Moves events from one log into ClickHouse. The partitions of the live log run in parallel (consume-claim.ts); those
 * of the backfill log take turns (backfill-pace.ts).
 */
export function eventConsumer(deps: ConsumeDeps): EventConsumer {
  const { log, backfill, deadLetters, logger } = deps
  const lane: Lane = backfill ? 'backfill' : 'live'
  const pace = backfill && backfillPace(liveTraffic(log, backfill.liveLag))
  let consumer: LogConsumer | undefined
  const lag = () => consumer?.lag() ?? []
  const metrics = writerMetrics(deps.metrics, lane, { log: backfill?.log ?? log, lag })
  const stalledPartitions = new Map<number, string>()
  const context: Omit<BatchContext, 'logId'> = {
    lane,
    inserter: measuredInserter(deps.inserter, metrics),
    deadLetters,
    // One insert occupies one core of ClickHouse. A second slot is needed while one insert hangs. Old rows take turns.
    reserve: pace
      ? async (_, signal) => ({ run: pace.measured, release: await pace.turn(signal) })
      : insertSlots(deps.insertsMax ?? Math.max(2, availableParallelism())),
    pace,
    metrics,
    logger,
    stalledPartitions,
  }

  return {
    name: backfill ? 'backfill consumer' : 'event consumer',
    lag,
    hasJoined: () => consumer?.hasJoined() ?? false,
    warnings: () =>
      [...stalledPartitions].map(
        ([partition, reason]) => `${backfill ? 'backfill log: ' : ''}partition ${partition} waits: ${reason}`,
      ),
    run: async (stopping) => {
      // Both logs use the id of the live log: copies of an event may be in either log, so the inserts of a partition
      // must exclude each other.
      const [logId, storeId] = await Promise.all([log.id(), deps.inserter.storeId()])
      const [partitions, shards] = await Promise.all([(backfill?.log ?? log).partitions(), deps.inserter.shards()])
      try {
        requirePartitionsMultipleOf(shards, partitions)
      } catch (error) {
        throw new FatalError(internalMessage(error), { cause: error })
      }
      const graceExpired = new AbortController()
      const member = (backfill?.log ?? log).consumer({
        group: writerGroup(storeId),
        batchBytesMax: backfill ? backfillBatchBytesMax : batchBytesMax,
        batchRowsMax: backfill ? backfillBatchRowsMax : batchRowsMax,
        ...(deps.budget && { budget: deps.budget }),
        lingerMs: backfill ? 0 : (deps.lingerMs ?? lingerMsDefault),
        onClaim: (claim) =>
          consumeClaim(claim, { requested: stopping, graceExpired: graceExpired.signal }, { ...context, logId }),
      })
      consumer = member
      const stop = (): void => {
        setTimeout(() => {
          graceExpired.abort(new Error('the writer stops'))
        }, stopGraceMs).unref()
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
