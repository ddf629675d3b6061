import type { BlockAtOffset } from '@sluice/event-log/block-lines'
import { clickHouseCode, ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import type { EventBatch, EventInserter } from '@sluice/event-store/insert/event-inserter'
import { sleep } from '@sluice/runtime/sleep'
import { insertQueryId } from './insert-lock.ts'
import { insertTimeoutMs, type LanePolicy } from './lane-policy.ts'

/**
 * Delay before an insert is retried after a lock conflict, that is while another insert with the same lock runs. It is
 * shorter than the gap between two statements of the backfill log (backfill-pace.ts), so that an insert of the live log
 * runs in this gap.
 */
const lockRetryDelayMs = 100

export interface LockedInsertDeps {
  policy: Pick<LanePolicy, 'lockWait'>
  inserter: Pick<EventInserter, 'insert'>
  /** Runs a request to ClickHouse when a slot is free (insert-slots.ts). Between attempts no slot is occupied. */
  withSlot: <T>(work: () => Promise<T>) => Promise<T>
  /** `EventLog.id()`, which identifies the log in query ids. */
  logId: string
}

/**
 * Returns a function that inserts blocks of a batch when no other insert with the lock runs: of the other topic, of
 * another partition, or of an earlier owner. It resolves with the number of new rows. It throws when `signal` aborts,
 * when the lock was waited for too long and the policy of the lane says so, and when ClickHouse fails.
 *
 * The rows are stored on the shard of the partition, where the lock and the look-back of the insert work as on a single
 * server. The `query_id` allows one insert at a time, of both lanes and of the partitions that share it
 * (insert-lock.ts). An insert of a member that has lost the partition may still run. `shouldReplaceRunning` cancels it,
 * at the first insert of a claim and after an insert of this writer with an unknown outcome. An insert that another one
 * excludes or cancels is retried after a short delay.
 */
export function lockedInsert(
  { partition, isFirstOfClaim, signal }: { partition: number; isFirstOfClaim: boolean; signal: AbortSignal },
  { policy: { lockWait }, inserter, withSlot, logId }: LockedInsertDeps,
): (blocks: readonly BlockAtOffset[]) => Promise<number> {
  const queryId = insertQueryId(logId, partition)
  let shouldReplaceRunning = isFirstOfClaim

  const insertOnce = (blocks: readonly BlockAtOffset[]): Promise<number> =>
    withSlot(async () => {
      // The claim may have been lost while the insert waited for a slot.
      signal.throwIfAborted()
      const rows: EventBatch = {
        payloads: blocks.map(({ payload }) => payload),
        hasUndated: blocks.some(({ headers }) => headers.undated),
      }
      const options = { queryId, shouldReplaceRunning, partition, timeoutMs: insertTimeoutMs }
      try {
        const { inserted } = await inserter.insert(rows, options)
        shouldReplaceRunning = false
        return inserted
      } catch (error) {
        shouldReplaceRunning = shouldReplaceAfter(error) ?? shouldReplaceRunning
        throw error
      }
    })

  return async (blocks) => {
    for (let since = performance.now(); ;) {
      try {
        return await insertOnce(blocks)
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
