import type { Block } from '@sluice/event-log/block'
import type { Claim, LogBatch } from '@sluice/event-log/log'
import { settledOrAborted } from '@sluice/runtime/settled-or-aborted'
import { isTracing, linksMax, type SpanContext, spanContextsOf, traced } from '@sluice/runtime/tracing'
import type { InsertSlot } from './insert-slots.ts'
import { type BatchContext, processBatch } from './process-batch.ts'

/**
 * A stop of the writer. After `requested`, no attempt begins. After `graceExpired`, the running attempt is not awaited.
 */
export interface WriterStop {
  requested: AbortSignal
  graceExpired: AbortSignal
}

/** Processes the batches of a claim, one after the other, until the claim is lost or the writer stops. */
export async function consumeClaim(claim: Claim, stop: WriterStop, context: BatchContext): Promise<void> {
  const { policy, stalledPartitions } = context
  /** After it has aborted, no further attempt begins. */
  const signal = AbortSignal.any([claim.lost, stop.requested])
  /**
   * After it has aborted, the running attempt is not awaited. If its insert still runs, the partition's next claim
   * cancels it.
   */
  const stopWaiting = AbortSignal.any([claim.lost, stop.graceExpired])
  let isFirstOfClaim = true
  let slot: InsertSlot | undefined
  // Blocks that arrive while a batch waits for its slot or turn are stored together with it, without another wait.
  const ready = (): Promise<void> => {
    const reserved = policy.reserve(claim.partition).then((free) => {
      if (signal.aborted) free.release()
      else slot = free
    })
    return settledOrAborted(reserved, signal).catch(() => undefined)
  }
  try {
    for await (const batch of claim.batches({ ready })) {
      // Blocks that are not stored yet are read again after the restart, or by the partition's new owner.
      if (signal.aborted) continue
      if (slot === undefined) throw new Error('a batch without a slot')
      const free = slot
      const work = () => processBatch(claim, batch, { isFirstOfClaim, signal, slot: free }, context)
      await settledOrAborted(isTracing() ? tracedBatch(batch, work) : work(), stopWaiting)
        .catch((error: unknown) => {
          if (!signal.aborted) throw error
        })
        .finally(() => stalledPartitions.delete(batch.partition))
      isFirstOfClaim = false
      slot.release()
    }
  } finally {
    slot?.release()
  }
}

/**
 * Processes a batch in a span. The span continues the trace of the first sampled publish in the batch, and links to the
 * others.
 */
function tracedBatch(batch: LogBatch, work: () => Promise<void>): Promise<void> {
  const { partition, rows, blocks } = batch
  const attributes = { 'sluice.partition': partition, 'sluice.rows': rows, 'sluice.blocks': blocks.length }
  return traced('batch', { kind: 'consumer', attributes, parentAndLinks: spanContextsOfBlocks(blocks) }, work)
}

function spanContextsOfBlocks(blocks: readonly Block[]): SpanContext[] {
  const traceparents = new Set<string>()
  for (const { headers } of blocks) {
    if (headers.traceparent !== undefined && traceparents.size < linksMax) traceparents.add(headers.traceparent)
  }
  return [...traceparents].flatMap((traceparent) => spanContextsOf({ traceparent }))
}
