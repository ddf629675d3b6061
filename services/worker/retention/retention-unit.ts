import type { SiteStore } from '@sluice/access/sites'
import { dayMs } from '@sluice/contracts/time-units'
import {
  type EventEraser,
  expiredLimitsMax,
  type ExpiredSite,
  expiredSitesMax,
} from '@sluice/event-store/erasures/event-eraser'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import type { RetentionJob, RetentionRunStore } from '@sluice/postgres/retention-runs'
import type { Clock } from '@sluice/runtime/clock'

export interface RetentionUnitDeps {
  runs: Pick<RetentionRunStore, 'advance' | 'end'>
  sites: Pick<SiteStore, 'listRetention' | 'findRegistered'>
  eraser: Pick<EventEraser, 'startExpiry' | 'startCleanup' | 'isDeleting'>
  clock: Pick<Clock, 'now'>
}

/** Twice a day: what expires just after a run is deleted within 24 hours, if the next run takes less than 12 hours. */
const runIntervalMs = dayMs / 2
/** The pause after the start of a deletion, which has mostly ended by then. */
const startedPauseMs = 1_000
/** The pause before a deletion that takes longer is looked at again. */
const pollMs = 10_000

/** A site keeps its events for longer than when the unit read its `retention_days`. */
class RetentionExtendedError extends Error {
  override readonly name = 'RetentionExtendedError'
}

/**
 * Deletes the events of each site that are older than its `retention_days`, and removes deleted rows from the disk, at
 * midnight and at noon (UTC). With many sites, a run takes several units. Each unit starts the deletion for some sites
 * and waits until ClickHouse has finished the previous one. If a run is not finished when the next one is due, the next
 * one starts directly after it. Repeats are harmless, because a DELETE selects rows by site and time. A unit is repeated
 * when a site gets a longer retention before its deletion.
 */
export function retentionUnit({
  runs,
  sites,
  eraser,
  clock,
}: RetentionUnitDeps): (job: Pick<RetentionJob, 'run'>, lease: Lease) => Promise<UnitResult> {
  return async ({ run }, lease) => {
    if (await eraser.isDeleting()) return { next: clock.now() + pollMs, log: { waits: 'for ClickHouse' } }
    // The same time in all units of a run. Otherwise further events would have expired in each unit.
    const at = run?.at ?? Math.floor(clock.now() / runIntervalMs) * runIntervalMs
    const expired = (await sites.listRetention())
      .map(({ siteId, retentionDays }) => ({ siteId, retentionDays, before: at - retentionDays * dayMs }))
      .filter(({ siteId }) => run === null || siteId > run.afterSite)
      .sort((a, b) => (a.siteId < b.siteId ? -1 : 1))
    const log = { sites: expired.length, partitions: 0, events: 0 }
    for (let done = 0; done < expired.length;) {
      lease.signal.throwIfAborted()
      const chunk = firstChunk(expired.slice(done))
      const confirm = async () => {
        const current = await sites.findRegistered(chunk.map(({ siteId }) => siteId))
        // Other changes do not repeat a scan that may take an hour: the next run obeys a shorter retention, and all
        // events of a deleted site are erased.
        const isExtended = chunk.some(({ siteId, retentionDays }) => {
          const days = current.get(siteId)
          return days === null || (days !== undefined && days > retentionDays)
        })
        if (isExtended) throw new RetentionExtendedError()
        // Directly before the deletion: a process that was suspended has lost its lease.
        lease.signal.throwIfAborted()
      }
      const started = await eraser.startExpiry(chunk, confirm).catch(unlessExtended)
      if (started === undefined) return { next: 'now', log: { ...log, repeats: 'with other settings' } }
      const { partitions, events } = started
      log.partitions += partitions
      log.events += events
      done += chunk.length
      const isLast = done === expired.length
      if (!isLast) await runs.advance(lease, { at, afterSite: chunk.at(-1)?.siteId ?? '' })
      if (!isLast && partitions > 0) return { next: clock.now() + startedPauseMs, log }
    }
    lease.signal.throwIfAborted()
    // After the deletions: mutations are carried out in their order.
    await eraser.startCleanup()
    await runs.end(lease)
    return { next: at + runIntervalMs, log }
  }
}

/** The first of some sites, at least one: as many as one DELETE takes. */
function firstChunk<Site extends ExpiredSite>(sites: readonly Site[]): readonly Site[] {
  const limits = new Set<number>()
  const end = sites.findIndex(({ before }, n) => n === expiredSitesMax || limits.add(before).size > expiredLimitsMax)
  return end === -1 ? sites : sites.slice(0, end)
}

/** Undefined for an error that says that a site keeps its events for longer; throws others. */
function unlessExtended(error: unknown): undefined {
  if (!(error instanceof RetentionExtendedError)) throw error
}
