import type { Lane } from '@sluice/contracts/lanes'
import type { Block } from '@sluice/event-log/block'
import type { EventLog } from '@sluice/event-log/log'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import type { WriterMetrics } from './metrics.ts'

/** Long, because a publish may contain a whole batch, and only the batch's partition waits for it. */
const deadLetterTimeoutMs = 30_000

/** Dependencies of the publishing of dead letters. */
export interface DeadLetterContext {
  lane: Lane
  /** The log of rows that can't be stored. */
  deadLetters: Pick<EventLog, 'partitions' | 'publish'>
  metrics: Pick<WriterMetrics, 'deadLetters'>
  logger: Logger
}

/** Publishes the dead letters of a partition until they are durable. Rejects only when `signal` aborts. */
export async function publishDeadLetters(
  dead: readonly Block[],
  partition: number,
  { signal, onRetry }: { signal: AbortSignal; onRetry: (error: Error) => void },
  { lane, deadLetters, metrics, logger }: DeadLetterContext,
): Promise<void> {
  if (dead.length === 0) return
  await retry(
    async () => {
      const count = await deadLetters.partitions()
      const placed = dead.map((block) => ({ ...withLane(block, lane), partition: partition % count }))
      await deadLetters.publish(placed, { timeoutMs: deadLetterTimeoutMs })
    },
    {
      signal,
      onFailedAttempt: (error, attempt) => {
        onRetry(error)
        logger.warn({ err: error, partition, attempt }, 'dead-letter publish failed, retrying')
      },
    },
  )
  for (const { headers } of dead) {
    // A block with wrong headers may declare 0 rows.
    if (headers.letter) metrics.deadLetters.inc({ reason: headers.letter.reason }, Math.max(1, headers.rows))
  }
  const [first] = dead
  logger.error({ partition, letters: dead.length, first: first?.headers.letter }, 'rows published as dead letters')
}

/** Records in a dead letter that its block came from the backfill log. */
function withLane({ headers, ...block }: Block, lane: Lane): Block {
  const { letter } = headers
  if (lane === 'live' || letter === undefined) return { ...block, headers }
  return { ...block, headers: { ...headers, letter: { ...letter, lane } } }
}
