import type { Block } from '@sluice/event-log/block'
import { hasReached } from '@sluice/event-log/has-reached'
import type { CommittedOffset, EventLog } from '@sluice/event-log/log'
import type { Clock } from '@sluice/runtime/clock'
import { sum } from '@sluice/runtime/sum'
import type { ImportMetrics } from './metrics.ts'

/** Live rows may wait this long, in ms, while rows of imports are published. */
const liveWaitMsMax = 300
/**
 * If live rows always wait longer than `liveWaitMsMax`, imports would never finish. After waiting this long for live
 * rows in total, a unit publishes without waiting for them. It ends after its segment, so that imports of other sites
 * run next. The writers store the published rows with what live rows leave free.
 */
const patienceMs = 30_000
/**
 * A unit ends when the backfill log is full and the writers have stored nothing of it for this long, so that imports of
 * users can run. While the writers store something, the unit waits on, because a repeat publishes the rows of its
 * segment again.
 */
const stalledMsMax = 30_000
/** Rows and bytes that the backfill log may hold and that are not stored yet. */
const lagMax = { rows: 500_000, bytes: 256 * 1024 * 1024 }
const pollMs = 100

type OffsetsLog = Pick<EventLog, 'committedOffsets'>

/** Keeps imports from delaying live events, and from filling the backfill log. */
export interface PublishPace {
  /** The pace of one unit of work, which waits for live rows for 30 s at most. */
  startUnit(): UnitPace
}

/** The backfill log is full, and the writers store nothing of it. */
export class WritersStalledError extends Error {
  override readonly name = 'WritersStalledError'
}

/** The pace of one unit of work. */
export interface UnitPace {
  /**
   * Resolves once these blocks may be published, or when `signal` aborts. Throws AppError `unavailable` while the log
   * is, and WritersStalledError when the backfill log is full and the writers store nothing for 30 s.
   */
  waitUntilClear(blocks: readonly Block[], options: { signal: AbortSignal }): Promise<void>
}

/**
 * The pace by the committed offsets of the writers' group and the end offsets of the logs, in blocks.
 *
 * - Live rows wait less than 0.3 s if the group has consumed everything, or has passed the end offsets of 0.3 s ago.
 *   Under a steady load the group never has everything, so end offsets are kept until they are that old. Without end
 *   offsets of that age, live rows count as waiting.
 * - The log does not tell how many rows its blocks hold. Each block of the backfill log is assumed to be as large as
 *   those to be published. Blocks of gateways are smaller.
 */
export function publishPace({
  log,
  backfill,
  group,
  clock,
  metrics,
}: {
  log: OffsetsLog
  backfill: OffsetsLog
  /** The writers' group (`writerGroup`). */
  group: () => Promise<string>
  clock: Clock
  metrics: Pick<ImportMetrics, 'pausedSeconds'>
}): PublishPace {
  /** Offsets in the live log by the time of their request, oldest first. */
  let samples: { at: number; offsets: readonly CommittedOffset[] }[] = []

  async function isLiveStored(): Promise<boolean> {
    const at = clock.now()
    const offsets = await log.committedOffsets(await group())
    const isOldEnough = (sample: { at: number }): boolean => at - sample.at >= liveWaitMsMax
    const reference = samples.findLast(isOldEnough)
    samples = [...samples.filter((sample) => !isOldEnough(sample)), { at, offsets }]
    if (reference !== undefined) samples.unshift(reference)
    // Without such a sample, only a group that has read everything passes: older end offsets would prove less.
    const isRecent = reference !== undefined && at - reference.at <= 2 * liveWaitMsMax
    const { offsets: sampled } = isRecent ? reference : { offsets }
    return hasReached(offsets, new Map(sampled.map(({ partition, endOffset }) => [partition, endOffset])))
  }

  /** Whether the blocks fit into the lag that the backfill log may have, and how many of its blocks are stored. */
  async function readBackfillLag(blocks: readonly Block[]): Promise<{ isBelowMax: boolean; stored: bigint }> {
    const offsets = await backfill.committedOffsets(await group())
    const stored = offsets.reduce((total, { offset }) => total + offset, 0n)
    const lag = Number(offsets.reduce((total, { offset, endOffset }) => total + (endOffset - offset), 0n))
    const share = lag / Math.max(1, blocks.length)
    const rows = sum(blocks.map(({ headers }) => headers.rows))
    const bytes = sum(blocks.map(({ headers }) => headers.bytes))
    return { isBelowMax: share * rows < lagMax.rows && share * bytes < lagMax.bytes, stored }
  }

  function startUnit(): UnitPace {
    let waitedForLiveMs = 0
    return {
      waitUntilClear: async (blocks, { signal }) => {
        let stalledMs = 0
        let storedBefore: bigint | undefined
        for (let countedUntil = clock.now(); ;) {
          const isClear = waitedForLiveMs >= patienceMs || (await isLiveStored())
          if (isClear) {
            const { isBelowMax, stored } = await readBackfillLag(blocks)
            if (isBelowMax) return
            if (stored !== storedBefore) stalledMs = 0
            storedBefore = stored
          }
          if (signal.aborted) return
          if (stalledMs >= stalledMsMax) throw new WritersStalledError()
          await clock.sleep(pollMs, signal)
          const now = clock.now()
          const waitedMs = Math.max(0, now - countedUntil)
          countedUntil = now
          metrics.pausedSeconds.inc(waitedMs / 1000)
          if (isClear) stalledMs += waitedMs
          else waitedForLiveMs += waitedMs
        }
      },
    }
  }

  return { startUnit }
}
