import type { SiteStore } from '@sluice/access/sites'
import { dayMs } from '@sluice/contracts/time-units'
import type { EventEraser } from '@sluice/event-store/event-eraser'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { ErasureStore } from '@sluice/postgres/erasures'
import type { Clock } from '@sluice/runtime/clock'

export interface RetentionUnitDeps {
  sites: Pick<SiteStore, 'listRetention'>
  erasures: Pick<ErasureStore, 'forgetHashes'>
  eraser: Pick<EventEraser, 'startExpiry' | 'startCleanup' | 'isDeleting'>
  clock: Pick<Clock, 'now'>
}

/** As long as ClickHouse keeps tombstones: a restore of an older backup can repeat no erasure. */
const hashesKeptMs = 400 * dayMs
/** Twice a day: what expires just after a run is deleted within 24 hours, however long the next run takes. */
const everyMs = dayMs / 2
/** The pause before a deletion that is under way is looked at again. */
const pollMs = 60_000

/**
 * Deletes the events of each site that are older than its `retention_days`, and removes deleted rows from the disk, at
 * midnight and at noon (UTC). With many sites each unit deletes those of some, when ClickHouse has done the ones
 * before. The predicate is what makes repeats harmless.
 */
export function retentionUnit({
  sites,
  erasures,
  eraser,
  clock,
}: RetentionUnitDeps): (job: unknown, lease: Lease) => Promise<UnitResult> {
  return async (_, lease) => {
    if (await eraser.isDeleting()) return { next: clock.now() + pollMs, log: { waits: 'for ClickHouse' } }
    const now = clock.now()
    // The same in all units of a run: otherwise something would have expired again each time.
    const runAt = Math.floor(now / everyMs) * everyMs
    const expired = (await sites.listRetention()).map(({ siteId, retentionDays }) => ({
      siteId,
      before: runAt - retentionDays * dayMs,
    }))
    lease.signal.throwIfAborted()
    const { isDone, ...deleted } = await eraser.startExpiry(expired)
    if (!isDone) return { next: clock.now() + pollMs, log: { sites: expired.length, ...deleted } }
    await erasures.forgetHashes(now - hashesKeptMs)
    // After the deletions: mutations are carried out in their order.
    await eraser.startCleanup()
    return { next: nextRun(clock.now()), log: { sites: expired.length, ...deleted } }
  }
}

function nextRun(now: number): number {
  return (Math.floor(now / everyMs) + 1) * everyMs
}
