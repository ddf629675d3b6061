import type { EventLog, LogBatch, LogConsumer } from '@sluice/event-log/log'

/** Whose position tells which dead letters were replayed. */
const group = 'sluice-replay-dead-letters'
const limits = { maxBatchBytes: 8 * 1024 * 1024, maxBatchRows: 10_000, lingerMs: 0 }
/** Kafka takes seconds to give out its partitions. */
const idleMsMax = 30_000

/**
 * Hands over every dead letter that nobody has replayed yet, up to the end as of now; what comes later waits for the next
 * time, or a row that comes back at once would be read for ever. With `commit` they count as replayed once `handle` is
 * done. Rejects when `handle` does, and when no letter came for 30 s although some are left.
 */
export async function readDeadLetters(
  deadLetters: EventLog,
  { handle, commit }: { handle: (batch: LogBatch) => Promise<void>; commit: boolean },
): Promise<void> {
  const positions = await deadLetters.positions(group)
  /** By partition with letters left, where its last one ends. */
  const ends = new Map(positions.filter(({ next, end }) => next < end).map(({ partition, end }) => [partition, end]))
  if (ends.size === 0) return

  const idle = Promise.withResolvers<never>()
  const fail = (): void => {
    const text = `No dead letter came for ${idleMsMax / 1000} s, and some are left: is another replay running?`
    idle.reject(new Error(text))
  }
  let timer = setTimeout(fail, idleMsMax)

  const consumer: LogConsumer = deadLetters.consumer({
    group,
    ...limits,
    onClaim: async (claim) => {
      for await (const batch of claim.batches()) {
        const end = ends.get(claim.partition)
        if (end === undefined) continue
        clearTimeout(timer)
        await handle(batch)
        if (commit) await claim.commit(batch)
        timer = setTimeout(fail, idleMsMax)
        if (batch.nextOffset >= end) ends.delete(claim.partition)
        if (ends.size === 0) void consumer.stop()
      }
    },
  })
  try {
    await Promise.race([consumer.run(), idle.promise])
  } finally {
    clearTimeout(timer)
    await consumer.stop()
  }
}
