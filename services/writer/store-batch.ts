import type { Block } from '@sluice/event-log/block'
import { type BlockAtOffset, blockOfLines, splitLines } from '@sluice/event-log/block-lines'
import { type DeadLetterCause, toDeadLetter } from '@sluice/event-log/dead-letters'
import type { LogBatch } from '@sluice/event-log/log'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { classifyBlocks } from './classify-blocks.ts'
import { insertTimeoutMs, type LanePolicy } from './lane-policy.ts'
import { lockedInsert, type LockedInsertDeps } from './locked-insert.ts'

export interface StoreDeps extends LockedInsertDeps {
  policy: Pick<LanePolicy, 'statements' | 'lockWait'>
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>
  logger: Logger
  /** Called after a failed attempt, before the next one. */
  onRetry: (error: Error) => void
}

/** The outcome of a batch. */
export interface Stored {
  /** Number of new rows. */
  inserted: number
  /** Dead letters of the rows that can't be stored. They must be published before the batch is committed. */
  dead: readonly Block[]
}

/**
 * Stores the rows of a batch under the lock of its partition (locked-insert.ts) and retries until that succeeds.
 * Repeats are harmless, because the insert skips stored rows. Rejects only when `signal` aborts: then another member
 * owns the batch, or it is read again after a stop.
 *
 * Rows become dead letters only when ClickHouse can't read them. After any other error, such as a missing table or a
 * full disk, the insert is retried until it succeeds (docs/decisions/005-dead-letters.md).
 */
export async function storeBatch(
  batch: LogBatch,
  { isFirstOfClaim, signal }: { isFirstOfClaim: boolean; signal: AbortSignal },
  deps: StoreDeps,
): Promise<Stored> {
  const { partition, oldestAppendedAt } = batch
  const { policy, inserter, withSlot, logger, onRetry } = deps
  const insertBlocks = lockedInsert({ partition, isFirstOfClaim, signal }, deps)
  let inserted = 0

  const retryUntilDone = <T>(work: () => Promise<T>, isPermanent?: (error: unknown) => boolean): Promise<T> =>
    retry(work, {
      signal,
      ...(isPermanent && { isPermanent }),
      onFailedAttempt: (error, attempt) => {
        onRetry(error)
        const level = error instanceof ClickHouseError && error.retryable ? 'warn' : 'error'
        logger[level]({ err: error, partition, attempt }, 'batch insert failed, retrying')
      },
    })

  /** Stores the blocks. Returns dead letters of the rows that ClickHouse can't read; none if `areRowsVerified`. */
  async function insert(blocks: readonly BlockAtOffset[], areRowsVerified = false): Promise<Block[]> {
    if (blocks.length === 0) return []
    const mayHoldBadRows = (error: unknown) => !areRowsVerified && error instanceof ClickHouseError && error.isBadData
    const isTooLarge = (error: unknown): error is ClickHouseError =>
      blocks.length > 1 && error instanceof ClickHouseError && error.isTooLarge
    try {
      const rows = await retryUntilDone(
        () => insertBlocks(blocks),
        (error) => mayHoldBadRows(error) || isTooLarge(error),
      )
      inserted += rows
      return []
    } catch (error) {
      if (isTooLarge(error)) {
        onRetry(error)
        logger.warn(
          { err: error, partition, blocks: blocks.length },
          'insert exceeded a ClickHouse limit, splitting the batch',
        )
        const half = Math.ceil(blocks.length / 2)
        const first = await insert(blocks.slice(0, half), areRowsVerified)
        return [...first, ...(await insert(blocks.slice(half), areRowsVerified))]
      }
      if (!mayHoldBadRows(error)) throw error
    }
    const { good, bad } = await retryUntilDone(() => withSlot(() => splitBadRows(blocks, partition, inserter)))
    await insert(good, true)
    return bad
  }

  const { readable, dead } = await retryUntilDone(() => Promise.resolve().then(() => classifyBlocks(batch)))
  if (readable.length > 0) {
    const statements = policy.statements(readable, { oldestAppendedAt, signal })
    for await (const part of statements) dead.push(...(await insert(part)))
  }
  return { dead, inserted }
}

/**
 * Separates the rows that ClickHouse can read from the others. The others become dead letters, one per block and
 * reason.
 */
async function splitBadRows(
  blocks: readonly BlockAtOffset[],
  partition: number,
  inserter: Pick<EventInserter, 'findBadRows'>,
): Promise<{ good: BlockAtOffset[]; bad: Block[] }> {
  const rows = blocks.flatMap((block) => splitLines(block).map((line) => ({ block, line })))
  const causes = new Map(
    (
      await inserter.findBadRows(
        rows.map(({ line }) => line),
        { partition, timeoutMs: insertTimeoutMs },
      )
    ).map(({ index, ...cause }) => [index, cause]),
  )
  const parts = new Map<string, { block: BlockAtOffset; cause: DeadLetterCause | undefined; lines: Buffer[] }>()
  for (const [index, { block, line }] of rows.entries()) {
    const cause = causes.get(index)
    const key = `${block.offset} ${cause?.reason ?? 'good'} ${cause?.code ?? ''}`
    const part = parts.get(key) ?? { block, cause, lines: [] }
    part.lines.push(line)
    parts.set(key, part)
  }
  const good: BlockAtOffset[] = []
  const bad: Block[] = []
  for (const { block, cause, lines } of parts.values()) {
    const part = blockOfLines(lines, block)
    if (cause) bad.push(toDeadLetter(part, cause))
    else good.push(part)
  }
  return { good, bad }
}
