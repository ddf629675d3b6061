import { type ReplayedOffsets, replayedUntil, replayGroup } from '@sluice/event-log/dead-letters'
import type { EventLog, LogBatch, LogConsumer } from '@sluice/event-log/log'

const limits = { batchBytesMax: 8 * 1024 * 1024, batchRowsMax: 10_000, lingerMs: 0 }
/** Kafka takes seconds to assign its partitions. */
const idleMsMaxDefault = 30_000

/**
 * Calls `handle` with every dead letter that has not been replayed yet, up to the present end of the log. Later letters
 * wait for the next call, because otherwise a row that fails again at once would be read for ever. With `commit`, the
 * letters count as replayed once `handle` has resolved. With `positions`, letters below these count as replayed
 * although the log may have forgotten that, as Kafka does a week after the last replay. Rejects when `handle` rejects,
 * except for a claim that was lost meanwhile: the next claim handles its letters again. Rejects when no letter arrived
 * for `idleMsMax` (30 s) although some are left.
 */
export async function readDeadLetters(
  deadLetters: EventLog,
  {
    handle,
    commit,
    positions,
    idleMsMax = idleMsMaxDefault,
  }: {
    handle: (batch: LogBatch) => Promise<void>
    commit: boolean
    positions: ReplayedOffsets | undefined
    idleMsMax?: number
  },
): Promise<void> {
  const logId = await deadLetters.id()
  const waiting = await replayedUntil(deadLetters, positions)
  /** Partitions with letters left, and the offset after the last of each. */
  const ends = new Map(
    waiting
      .filter(({ offset, endOffset }) => offset < endOffset)
      .map(({ partition, endOffset }) => [partition, endOffset]),
  )
  const starts = new Map(waiting.map(({ partition, offset }) => [partition, offset]))
  if (ends.size === 0) return

  const idle = Promise.withResolvers<never>()
  const fail = (): void => {
    const text = `No dead letter came for ${idleMsMax / 1000} s, and some are left: is another replay running?`
    idle.reject(new Error(text))
  }
  /** Number of running `handle` calls; partitions are read in parallel, and none is idle while one is handled. */
  let handling = 0
  let progressAt = performance.now()
  const watch = setInterval(
    () => {
      if (handling === 0 && performance.now() - progressAt >= idleMsMax) fail()
    },
    Math.min(1_000, idleMsMax / 4),
  )

  const consumer: LogConsumer = deadLetters.consumer({
    group: replayGroup,
    ...limits,
    onClaim: async (claim) => {
      for await (const batch of claim.batches()) {
        const end = ends.get(claim.partition)
        if (end === undefined) continue
        handling++
        try {
          await handle(withoutBlocksBelow(batch, starts.get(claim.partition) ?? 0n))
          if (commit) {
            await positions?.advance(logId, claim.partition, batch.nextOffset)
            await claim.commit(batch)
          }
        } finally {
          handling--
          progressAt = performance.now()
        }
        if (batch.nextOffset >= end) ends.delete(claim.partition)
        if (ends.size === 0) void consumer.stop()
      }
    },
  })
  try {
    await Promise.race([consumer.run(), idle.promise])
  } finally {
    clearInterval(watch)
    await consumer.stop()
  }
}

/** The batch without the blocks that were replayed before; it may be left with no block. */
function withoutBlocksBelow(batch: LogBatch, start: bigint): LogBatch {
  const first = batch.offsets.findIndex((offset) => offset >= start)
  if (first === 0) return batch
  const kept = first === -1 ? batch.blocks.length : first
  return { ...batch, blocks: batch.blocks.slice(kept), offsets: batch.offsets.slice(kept) }
}
