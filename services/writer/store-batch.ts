import type { Block } from '@sluice/event-log/block'
import { type BlockAtOffset, blockOfLines, splitLines } from '@sluice/event-log/block-lines'
import { type DeadLetterCause, toDeadLetter } from '@sluice/event-log/dead-letters'
import type { LogBatch } from '@sluice/event-log/log'
import { clickHouseCode, ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import type { EventBatch, EventInserter } from '@sluice/event-store/insert/event-inserter'
import type { Logger } from '@sluice/runtime/logger'
import { retry } from '@sluice/runtime/retry'
import { sleep } from '@sluice/runtime/sleep'
import { classifyBlocks } from './classify-blocks.ts'
import { insertQueryId } from './insert-lock.ts'
import { insertTimeoutMs, type LanePolicy } from './lane-policy.ts'

/**
 * Delay before an insert is retried after a lock conflict, that is while another insert with the same lock runs. It is
 * shorter than the gap between two statements of the backfill log (backfill-pace.ts), so that an insert of the live log
 * runs in this gap.
 */
const lockRetryDelayMs = 100

export interface StoreDeps {
  policy: Pick<LanePolicy, 'statements' | 'lockWait'>
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>
  /** Runs a request to ClickHouse when a slot is free (insert-slots.ts). Between attempts no slot is occupied. */
  withSlot: <T>(work: () => Promise<T>) => Promise<T>
  /** `EventLog.id()`, which identifies the log in query ids. */
  logId: string
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
 * Stores the rows of a batch and retries until that succeeds. Repeats are harmless, because the insert skips stored
 * rows. Rejects only when `signal` aborts: then another member owns the batch, or it is read again after a stop.
 *
 * The rows are stored on the shard of the partition, where the lock and the look-back of the insert work as on a single
 * server. The `query_id` allows one insert at a time, of both lanes and of the partitions that share it
 * (insert-lock.ts). An insert of a member that has lost the partition may still run. `shouldReplaceRunning` cancels it,
 * at the first insert of a claim and after an insert of this writer with an unknown outcome. An insert that another one
 * excludes or cancels is retried after a short delay.
 *
 * Rows become dead letters only when ClickHouse can't read them. After any other error, such as a missing table or a
 * full disk, the insert is retried until it succeeds (docs/decisions/005-dead-letters.md).
 */
export async function storeBatch(
  batch: LogBatch,
  { isFirstOfClaim, signal }: { isFirstOfClaim: boolean; signal: AbortSignal },
  { policy, inserter, withSlot, logId, logger, onRetry }: StoreDeps,
): Promise<Stored> {
  const { partition, oldestAppendedAt } = batch
  const { lockWait } = policy
  const queryId = insertQueryId(logId, partition)
  let shouldReplaceRunning = isFirstOfClaim
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

  const insertOnce = (blocks: readonly BlockAtOffset[]): Promise<void> =>
    withSlot(async () => {
      // The claim may have been lost while the insert waited for a slot.
      signal.throwIfAborted()
      const rows: EventBatch = {
        payloads: blocks.map(({ payload }) => payload),
        hasUndated: blocks.some(({ headers }) => headers.undated),
      }
      const options = { queryId, shouldReplaceRunning, partition, timeoutMs: insertTimeoutMs }
      try {
        const result = await inserter.insert(rows, options)
        inserted += result.inserted
        shouldReplaceRunning = false
      } catch (error) {
        shouldReplaceRunning = shouldReplaceAfter(error) ?? shouldReplaceRunning
        throw error
      }
    })

  /**
   * Inserts when no other insert with the lock runs: of the other topic, of another partition, or of an earlier owner.
   */
  async function insertWhenUnlocked(blocks: readonly BlockAtOffset[]): Promise<void> {
    for (let since = performance.now(); ;) {
      try {
        await insertOnce(blocks)
        return
      } catch (error) {
        if (!isLockConflict(error)) throw error
        if (performance.now() - since > lockWait.msMax) {
          if (lockWait.onTimeout === 'fail') throw error
          shouldReplaceRunning = true
          since = performance.now()
        }
      }
      await sleep(lockRetryDelayMs, signal)
      signal.throwIfAborted()
    }
  }

  /** Stores the blocks. Returns dead letters of the rows that ClickHouse can't read; none if `areRowsVerified`. */
  async function insert(blocks: readonly BlockAtOffset[], areRowsVerified = false): Promise<Block[]> {
    if (blocks.length === 0) return []
    const mayHoldBadRows = (error: unknown) => !areRowsVerified && error instanceof ClickHouseError && error.isBadData
    const isTooLarge = (error: unknown): error is ClickHouseError =>
      blocks.length > 1 && error instanceof ClickHouseError && error.isTooLarge
    try {
      await retryUntilDone(
        () => insertWhenUnlocked(blocks),
        (error) => mayHoldBadRows(error) || isTooLarge(error),
      )
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

/** Whether ClickHouse refused or cancelled an insert because of another insert with the same lock. */
function isLockConflict(error: unknown): boolean {
  const code = error instanceof ClickHouseError ? error.serverCode : undefined
  return code === clickHouseCode.queryWithSameIdIsAlreadyRunning || code === clickHouseCode.queryWasCancelled
}

/** Whether the next insert must cancel a running one after `error`. Undefined when the error does not change that. */
function shouldReplaceAfter(error: unknown): boolean | undefined {
  const code = error instanceof ClickHouseError ? error.serverCode : undefined
  // Without a response, the insert may still run.
  if (code === undefined) return true
  // The other insert must finish first.
  return isLockConflict(error) ? false : undefined
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
