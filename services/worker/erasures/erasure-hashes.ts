import { dayMs, hourMs } from '@sluice/contracts/time-units'
import { type ErasureStore, erasureStore } from '@sluice/postgres/erasures'
import { type Clock, requireComparedClock } from '@sluice/runtime/clock'
import { poller } from '@sluice/runtime/poller'
import type { WorkerTask } from '../worker-task.ts'

const intervalMs = hourMs
/**
 * Time for which Postgres keeps the hashes of a completed erasure, the same as ClickHouse keeps tombstones: after it, a
 * restore of an older backup can't repeat the erasure.
 */
const retentionMs = 400 * dayMs

/**
 * Removes the hashes of erasures that were completed more than 400 days ago. Throws the errors of `requireComparedClock`,
 * and then removes nothing.
 */
export async function removeOldHashes(
  erasures: Pick<ErasureStore, 'forgetHashes'>,
  clock: Pick<Clock, 'now' | 'isCompared'>,
): Promise<void> {
  requireComparedClock(clock)
  await erasures.forgetHashes(clock.now() - retentionMs)
}

/** Looks for old hashes every hour. */
export const erasureHashes: WorkerTask = ({ postgres }, { clock, logger }) =>
  poller({
    name: 'hashes of erasures',
    intervalMs,
    poll: () => removeOldHashes(erasureStore(postgres), clock),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'removal of old hashes of erasures failed, retrying')
    },
  })
