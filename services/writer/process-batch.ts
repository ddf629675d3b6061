import type { Claim, LogBatch } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import { internalMessage } from '@sluice/runtime/errors'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import type { InsertSlot } from './insert-slots.ts'
import type { LanePolicy } from './lane-policy.ts'
import type { WriterMetrics } from './metrics.ts'
import { type DeadLetterContext, publishDeadLetters } from './publish-dead-letters.ts'
import { storeBatch } from './store-batch.ts'

/** Dependencies of the processing of a consumer's batches. */
export interface BatchContext extends Omit<DeadLetterContext, 'lane'> {
  policy: LanePolicy
  /** `EventLog.id()`, which identifies the log in query ids. */
  logId: string
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>
  metrics: WriterMetrics
  clock: Pick<SynchronizedClock, 'now'>
  /** Reasons why batches are not stored yet, by partition. */
  stalledPartitions: Map<number, string>
}

/** Inserts a batch, publishes its dead letters, then commits. Rejects when `signal` aborts or the commit is refused. */
export async function processBatch(
  claim: Claim,
  batch: LogBatch,
  { isFirstOfClaim, signal, slot }: { isFirstOfClaim: boolean; signal: AbortSignal; slot: InsertSlot },
  context: BatchContext,
): Promise<void> {
  const { policy, logId, inserter, metrics, clock, logger, stalledPartitions } = context
  const { partition, oldestAppendedAt } = batch
  const onRetry = (error: Error): void => {
    metrics.retries.inc()
    stalledPartitions.set(partition, internalMessage(error))
    // The failure may last, and the slot must be free for other partitions.
    slot.release()
  }
  const started = performance.now()
  const { inserted, dead } = await storeBatch(
    batch,
    { isFirstOfClaim, signal },
    {
      policy,
      inserter,
      withSlot: (work) => slot.run(work),
      logId,
      logger,
      onRetry,
    },
  )
  await publishDeadLetters(dead, partition, { signal, onRetry }, { ...context, lane: policy.lane })
  // After both steps. If the writer crashes before the commit, the batch is repeated, which stores nothing twice.
  await claim.commit(batch)

  const durationMs = performance.now() - started
  metrics.rows.inc(batch.rows)
  metrics.inserted.inc(inserted)
  metrics.seconds.observe(durationMs / 1000)
  metrics.batchRows.observe(batch.rows)
  logger.info(
    {
      partition,
      first_offset: String(batch.firstOffset),
      next_offset: String(batch.nextOffset),
      blocks: batch.blocks.length,
      rows: batch.rows,
      inserted,
      dead_letters: dead.length,
      bytes: batch.bytes,
      duration_ms: Math.round(durationMs),
      age_ms: clock.now() - oldestAppendedAt,
      lane: policy.lane,
    },
    'batch',
  )
}
