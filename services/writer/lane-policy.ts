import { availableParallelism } from 'node:os'
import type { Lane } from '@sluice/contracts/lanes'
import type { BlockAtOffset } from '@sluice/event-log/block-lines'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { backfillPace } from './backfill-pace.ts'
import { type InsertSlot, insertSlots } from './insert-slots.ts'

/** A ClickHouse insert takes well under a second for a full batch. An insert that takes this long has stalled. */
export const insertTimeoutMs = 60_000

/** How the writer reads and stores the batches of a lane (docs/decisions/018-backfill-lane.md). */
export interface LanePolicy {
  lane: Lane
  /** Limits of a batch, and how long a batch waits for further blocks. */
  batch: { batchRowsMax: number; batchBytesMax: number; lingerMs: number }
  /** Reserves a slot for a partition's requests to ClickHouse. The caller must release it, used or not. */
  reserve(partition: number): Promise<InsertSlot>
  /**
   * Yields the blocks of each statement when the statement may run, until all rows were yielded. Throws the reason of
   * `signal` when that aborts earlier.
   */
  statements(
    blocks: readonly BlockAtOffset[],
    batch: { oldestAppendedAt: number; signal: AbortSignal },
  ): Iterable<readonly BlockAtOffset[]> | AsyncIterable<readonly BlockAtOffset[]>
  lockWait: LockWait
}

/** What happens when an insert has waited for its lock for `msMax`, in ms, because another insert with the lock runs. */
export interface LockWait {
  msMax: number
  /** `fail`: the failure is reported, and the insert retried. `cancel`: the retried insert cancels the running one. */
  onTimeout: 'fail' | 'cancel'
}

/**
 * Stores a batch by one statement, as soon as a slot is free. `insertsMax` is the number of concurrent inserts, the
 * number of cores by default; `lingerMs` is the wait for further blocks.
 */
export function livePolicy({
  // One insert occupies one core of ClickHouse. A second slot is needed while one insert hangs.
  insertsMax = Math.max(2, availableParallelism()),
  // With a shorter wait there are more inserts, and events wait for these (docs/decisions/022-small-inserts.md).
  lingerMs = 100,
} = {}): LanePolicy {
  return {
    lane: 'live',
    // With 20,000 to 50,000 rows in a batch, ClickHouse takes the least CPU per row (docs/benchmarks.md).
    batch: { batchRowsMax: 50_000, batchBytesMax: 16 * 1024 * 1024, lingerMs },
    reserve: insertSlots(insertsMax),
    statements: (blocks) => [blocks],
    lockWait: { msMax: 10_000, onTimeout: 'fail' },
  }
}

/**
 * The batches of all partitions take turns, and are divided into several statements while `isLive` returns that live
 * rows arrive (backfill-pace.ts).
 */
export function backfillPolicy(isLive: () => Promise<boolean>, clock: Pick<SynchronizedClock, 'now'>): LanePolicy {
  const pace = backfillPace(isLive, clock)
  return {
    lane: 'backfill',
    // A batch may become one statement, and each month in it costs as much as thousands of rows.
    batch: { batchRowsMax: 200_000, batchBytesMax: 32 * 1024 * 1024, lingerMs: 0 },
    reserve: async () => ({ run: pace.measured, release: await pace.turn() }),
    statements: (blocks, batch) => pace.statements(blocks, batch),
    // The live log may store batches without a pause. No running insert is cancelled before its own time limit.
    lockWait: { msMax: insertTimeoutMs, onTimeout: 'cancel' },
  }
}
