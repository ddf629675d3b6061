import type { Block } from '@sluice/contracts/block'
import { ClickHouseError, clickHouseCode } from '@sluice/clickhouse/errors'
import type { EventInserter } from '@sluice/clickhouse/insert-events'
import type { LogBatch } from '@sluice/event-log/log'
import type { Logger } from '@sluice/runtime/logger'
import { blockOf, deadLetter, type Fault, linesOf, type LoggedBlock } from './dead-letters.ts'
import { repeat } from './repeat.ts'
import { sortBlocks } from './sort-blocks.ts'

/** ClickHouse takes well under a second for a full batch; what takes longer is stuck. */
const timeoutMs = 60_000

export interface StoreDeps {
  inserter: Pick<EventInserter, 'insert' | 'findBadRows'>
  /** Runs a question to ClickHouse when it is its turn; nothing is held between attempts. */
  inTurn: <T>(work: () => Promise<T>) => Promise<T>
  /** Names the log in query ids: `EventLog.id()`. */
  logId: string
  logger: Logger
  /** Told of each failure that is followed by another attempt. */
  onRetry: (error: Error) => void
}

export interface Stored {
  /** Rows that were new. */
  inserted: number
  /** What can't be stored, with the reason: for the log of dead letters, before the batch is committed. */
  dead: readonly Block[]
}

/**
 * Stores what can be stored of a batch, however often that takes. Repeats are harmless: the insert skips what is stored.
 * Rejects only when `signal` aborts, for another member has the batch then, or it is read again after a stop.
 *
 * One `query_id` per partition admits one insert at a time (docs/decisions/002-exactly-once.md). An insert of a member
 * that lost the partition may still run: `replaceRunning` ends it, at the first insert of a claim and after an own one
 * whose end is unknown.
 *
 * Rows are given up only when ClickHouse can't read them: whatever else it says, a missing table or a full disk, is
 * waited out (docs/decisions/005-dead-letters.md).
 */
export async function storeBatch(
  batch: LogBatch,
  { firstOfClaim, signal }: { firstOfClaim: boolean; signal: AbortSignal },
  { inserter, inTurn, logId, logger, onRetry }: StoreDeps,
): Promise<Stored> {
  const { partition } = batch
  const queryId = `writer-${logId}-${partition}`
  let replaceRunning = firstOfClaim
  let inserted = 0

  const untilDone = <T>(work: () => Promise<T>, isFinal?: (error: unknown) => boolean): Promise<T> =>
    repeat(work, {
      signal,
      ...(isFinal && { isFinal }),
      onFailure: (error, attempt) => {
        onRetry(error)
        const level = error instanceof ClickHouseError && error.retryable ? 'warn' : 'error'
        logger[level]({ err: error, partition, attempt }, 'a batch is not stored, it is tried again')
      },
    })

  const insertOnce = (blocks: readonly LoggedBlock[], undated: boolean): Promise<void> =>
    inTurn(async () => {
      // The turn may have come late.
      signal.throwIfAborted()
      const payloads = blocks.map(({ payload }) => payload)
      try {
        const result = await inserter.insert({ payloads, undated }, { queryId, replaceRunning, timeoutMs })
        inserted += result.inserted
        replaceRunning = false
      } catch (error) {
        replaceRunning = mustReplace(error) ?? replaceRunning
        throw error
      }
    })

  /** Stores the blocks; returns what ClickHouse can't read of them. `areChecked`: it can read every row. */
  async function insert(blocks: readonly LoggedBlock[], undated: boolean, areChecked = false): Promise<Block[]> {
    if (blocks.length === 0) return []
    const mayBeBad = (error: unknown) => !areChecked && error instanceof ClickHouseError && error.isOfData
    const mayBeTooMuch = (error: unknown) => blocks.length > 1 && error instanceof ClickHouseError && error.isOfSize
    try {
      await untilDone(
        () => insertOnce(blocks, undated),
        (error) => mayBeBad(error) || mayBeTooMuch(error),
      )
      return []
    } catch (error) {
      if (mayBeTooMuch(error)) {
        logger.warn({ err: error, partition, blocks: blocks.length }, 'an insert was too much at once, it is halved')
        const half = Math.ceil(blocks.length / 2)
        const first = await insert(blocks.slice(0, half), undated, areChecked)
        return [...first, ...(await insert(blocks.slice(half), undated, areChecked))]
      }
      if (!mayBeBad(error)) throw error
    }
    const { good, bad } = await untilDone(() => inTurn(() => separate(blocks, inserter)))
    await insert(good, undated, true)
    return bad
  }

  const { dated, undated, dead } = await untilDone(() => Promise.resolve().then(() => sortBlocks(batch)))
  return { dead: [...dead, ...(await insert(dated, false)), ...(await insert(undated, true))], inserted }
}

/** Whether the next insert must end a running one; undefined: as before. */
function mustReplace(error: unknown): boolean | undefined {
  const code = error instanceof ClickHouseError ? error.code : undefined
  // No answer: the insert may still run.
  if (code === undefined) return true
  // Refused or cancelled: another one runs, and is waited for.
  const isAnothers =
    code === clickHouseCode.queryWithSameIdIsAlreadyRunning || code === clickHouseCode.queryWasCancelled
  return isAnothers ? false : undefined
}

/** Parts the rows that ClickHouse can read from those that it can't, which become dead letters: one per block and reason. */
async function separate(
  blocks: readonly LoggedBlock[],
  inserter: Pick<EventInserter, 'findBadRows'>,
): Promise<{ good: LoggedBlock[]; bad: Block[] }> {
  const rows = blocks.flatMap((block) => linesOf(block).map((line) => ({ block, line })))
  const faults = new Map(
    (
      await inserter.findBadRows(
        rows.map(({ line }) => line),
        { timeoutMs },
      )
    ).map(({ index, ...fault }) => [index, fault]),
  )
  const parts = new Map<string, { block: LoggedBlock; fault: Fault | undefined; lines: Buffer[] }>()
  for (const [index, { block, line }] of rows.entries()) {
    const fault = faults.get(index)
    const key = `${block.offset} ${fault?.reason ?? 'good'} ${fault?.code ?? ''}`
    const part = parts.get(key) ?? { block, fault, lines: [] }
    part.lines.push(line)
    parts.set(key, part)
  }
  const good: LoggedBlock[] = []
  const bad: Block[] = []
  for (const { block, fault, lines } of parts.values()) {
    const part = blockOf(lines, block)
    if (fault) bad.push(deadLetter(part, fault))
    else good.push(part)
  }
  return { good, bad }
}
