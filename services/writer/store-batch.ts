import type { Block } from '@sluice/contracts/block'
import { ClickHouseError, clickHouseCode } from '@sluice/clickhouse/errors'
import type { EventInserter } from '@sluice/clickhouse/insert-events'
import type { Claim, LogBatch } from '@sluice/event-log/log'
import type { Logger } from '@sluice/runtime/logger'
import pRetry from 'p-retry'

/** ClickHouse takes well under a second for a full batch; what takes longer is stuck. */
const insertTimeoutMs = 60_000

export interface StoreDeps {
  inserter: Pick<EventInserter, 'insert'>
  /** Names the log in query ids: `EventLog.id()`. */
  logId: string
  logger: Logger
  onRetry: () => void
}

/**
 * Stores a batch of one claim, however often that takes, and returns how many rows were new. Repeats are harmless: the
 * insert skips what is stored. Rejects only when the claim is lost, for another member has the batch then.
 *
 * One `query_id` per partition admits one insert at a time (docs/decisions/002-exactly-once.md). An insert of a member
 * that lost the partition may still run: `replaceRunning` ends it, at the first insert of a claim and after an own one
 * whose end is unknown.
 */
export async function storeBatch(
  batch: LogBatch,
  { claim, firstOfClaim }: { claim: Claim; firstOfClaim: boolean },
  { inserter, logId, logger, onRetry }: StoreDeps,
): Promise<number> {
  const queryId = `writer-${logId}-${batch.partition}`
  let replaceRunning = firstOfClaim
  let inserted = 0

  for (const { undated, blocks } of byKind(batch.blocks)) {
    await pRetry(
      async () => {
        claim.lost.throwIfAborted()
        const payloads = blocks.map(({ payload }) => payload)
        const result = await inserter.insert(
          { payloads, undated },
          { queryId, replaceRunning, timeoutMs: insertTimeoutMs },
        )
        inserted += result.inserted
        replaceRunning = false
      },
      {
        retries: Infinity,
        minTimeout: 100,
        maxTimeout: 10_000,
        factor: 2,
        randomize: true,
        signal: claim.lost,
        onFailedAttempt: ({ error, attemptNumber }) => {
          if (claim.lost.aborted) throw error
          const code = error instanceof ClickHouseError ? error.code : undefined
          // No answer: the insert may still run. Refused or cancelled: another one runs, and is waited for.
          if (!(error instanceof ClickHouseError) || code === undefined) replaceRunning = true
          if (code === clickHouseCode.queryWithSameIdIsAlreadyRunning || code === clickHouseCode.queryWasCancelled)
            replaceRunning = false
          onRetry()
          logger.warn(
            { err: error, partition: batch.partition, attempt: attemptNumber },
            'insert failed, it is repeated',
          )
        },
      },
    )
  }
  return inserted
}

/** Dated and undated rows are stored by two statements. */
function byKind(blocks: readonly Block[]): { undated: boolean; blocks: Block[] }[] {
  return [false, true]
    .map((undated) => ({ undated, blocks: blocks.filter(({ headers }) => (headers.undated ?? false) === undated) }))
    .filter((kind) => kind.blocks.length > 0)
}
