import type { SiteStore } from '@sluice/access/sites'
import type { EventSummary } from '@sluice/contracts/event-summary'
import { completeUntilFrom } from '@sluice/contracts/lanes'
import { QueryTooLargeError } from '@sluice/event-store/clickhouse/errors'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import type { EventScope } from '@sluice/event-store/event-scope'
import { sessionWindowMs } from '@sluice/event-store/session-sql'
import type { Lease, UnitResult } from '@sluice/leases/run-unit'
import { encodeBody } from '@sluice/postgres/deliveries'
import type { SummaryJob, SummaryStore } from '@sluice/postgres/summaries'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { waitsForWriters } from '../waits-for-writers.ts'
import { measureSummary } from './measure-summary.ts'
import { duePeriods } from './summary-periods.ts'

export interface SummaryUnitDeps {
  summaries: Pick<SummaryStore, 'finish'>
  sites: Pick<SiteStore, 'find'>
  watermarks: Pick<WatermarkStore, 'readCompleteTimes'>
  reader: { runnerFor(signal: AbortSignal): QueryRunner }
  clock: Pick<Clock, 'now'>
}

/** The pause between two checks whether everything that was accepted in a period can be read. */
const pauseMs = 5_000

/** One unit: the summary of the oldest period that has ended, once everything that was accepted in it can be read. */
export function summaryUnit(deps: SummaryUnitDeps): (job: SummaryJob, lease: Lease) => Promise<UnitResult> {
  const { summaries, sites, watermarks, reader, clock } = deps
  return async (job, lease) => {
    const { siteId, environment } = job
    const timeZone = (await sites.find(siteId))?.settings.timezone ?? 'UTC'
    const now = clock.now()
    const { ended, leftOut, nextEnd } = duePeriods({ ...job, timeZone, now })
    const [period] = ended
    if (!period) return { next: nextEnd }
    // Sessions that began before the period belong to another one. Their events are read to recognise them.
    const completeUntilMs = completeUntilFrom(await watermarks.readCompleteTimes(), period.start - sessionWindowMs)
    if (completeUntilMs < period.end) return { next: now + pauseMs, log: waitsForWriters }
    const measured = await measure({ siteId, environment, ...period }, reader.runnerFor(lease.signal))
    await summaries.finish(lease, job, { ...period, body: measured && encodeSummary(siteId, measured) }, clock.now())
    const log = { period_start: period.start, ...(leftOut > 0 && { left_out: leftOut }) }
    return {
      next: ended.length > 1 ? 'now' : nextEnd,
      log: measured ? log : { ...log, result: 'there are too many events to measure' },
    }
  }
}

/** Undefined: the summary exceeds the limits of a query, and would exceed them again. */
async function measure(scope: EventScope, runner: QueryRunner): Promise<EventSummary | undefined> {
  try {
    return await measureSummary(scope, runner)
  } catch (error) {
    if (error instanceof QueryTooLargeError) return undefined
    throw error
  }
}

function encodeSummary(siteId: string, data: EventSummary): Uint8Array {
  return encodeBody({ event_type: 'event_summary', timestamp: data.period_end, site_id: siteId, data })
}
