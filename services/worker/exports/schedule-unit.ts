import type { SiteStore } from '@sluice/access/sites'
import type { ExportSpec } from '@sluice/contracts/exports'
import { nextOccurrence, type Recurrence } from '@sluice/event-store/exports/recurrence'
import { type LeaseKey, LeaseLostError } from '@sluice/leases/lease-table'
import type { UnitResult } from '@sluice/leases/run-unit'
import type { ExportRecord } from '@sluice/postgres/export-records'
import type { ExportSchedule, NewRun } from '@sluice/postgres/export-schedules'
import type { ExportStore } from '@sluice/postgres/exports'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import type { Clock } from '@sluice/runtime/clock'
import { newId } from '@sluice/runtime/ids'
import { waitsForWriters } from '../waits-for-writers.ts'

export interface ScheduleUnitDeps {
  exports: Pick<ExportStore, 'find' | 'createRun'>
  sites: Pick<SiteStore, 'find'>
  watermarks: Pick<WatermarkStore, 'readCompleteTimes'>
  clock: Pick<Clock, 'now'>
}

/** Unix ms. */
interface Period {
  start: number
  end: number
}

/**
 * A run waits at most this long until everything accepted before its time can be read. What can't be read by then goes
 * to the next run.
 */
const completeWaitMsMax = 60_000
/** The pause between two checks of `complete_until`. */
const pauseMs = 1_000

/**
 * One unit of a schedule's work: its next run. All occurrences that have passed meanwhile, because no worker ran or the
 * first one was in the past, make one run.
 */
export function scheduleUnit(
  deps: ScheduleUnitDeps,
): (schedule: ExportSchedule, lease: LeaseKey) => Promise<UnitResult> {
  const { exports, sites, watermarks, clock } = deps
  return async ({ scheduleId, frequency, anchor, nextRun }, lease) => {
    const definition = await exports.find(scheduleId, null)
    if (!definition) throw new LeaseLostError(lease)
    const now = clock.now()
    // A worker has made the run without learning it, and released the schedule for another attempt.
    if (now < nextRun) return { next: nextRun, log: { waits: 'for its next run' } }
    const { all: completeUntilMs } = await watermarks.readCompleteTimes()
    if (completeUntilMs < nextRun && now < nextRun + completeWaitMsMax) {
      return { next: now + pauseMs, log: waitsForWriters }
    }
    const timeZone = (await sites.find(definition.siteId))?.settings.timezone ?? 'UTC'
    const recurrence = { frequency, anchor, timeZone }
    const period = periodOf(definition, { recurrence, nextRun, now })
    const following = nextOccurrence(recurrence, Math.max(now, nextRun)).at
    const chosen = choiceOf(definition.spec, period, completeUntilMs)
    const run = await exports.createRun(lease, { exportId: newId('exp'), ...chosen, nextRun: following }, now)
    return { next: following, log: { run: run?.exportId ?? 'there is one', next_run: following } }
  }
}

/** The period of a run of stats, and that of a first run of events. */
function periodOf(
  { spec, createdAt: madeAt }: ExportRecord,
  { recurrence, nextRun, now }: { recurrence: Recurrence; nextRun: number; now: number },
): Period {
  // Several occurrences may have passed: the run covers the latest period.
  if (spec.type === 'stats') return latestPeriod(recurrence, Math.max(now, nextRun))
  // If the first run was due before the schedule was made, it covers the latest period before that moment.
  return nextRun < madeAt ? latestPeriod(recurrence, madeAt) : periodBefore(recurrence, nextRun)
}

/** The period that ends at an occurrence. */
function periodBefore(recurrence: Recurrence, end: number): Period {
  return { start: nextOccurrence(recurrence, end - 1).previous, end }
}

/** The latest period that is over at `at`. */
function latestPeriod(recurrence: Recurrence, at: number): Period {
  return periodBefore(recurrence, nextOccurrence(recurrence, at).previous)
}

/**
 * Runs of events choose events by their time of receipt, runs of stats by the period. Runs of other types have the
 * state at the run.
 */
function choiceOf(spec: ExportSpec, period: Period, completeUntilMs: number): Pick<NewRun, 'spec' | 'receipt'> {
  const { start_date: start, end_date: _, ...undated } = spec
  if (spec.type === 'events') {
    return { spec: undated, receipt: { firstFrom: start ?? period.start, completeUntil: completeUntilMs } }
  }
  if (spec.type === 'stats') {
    return { spec: { ...spec, start_date: period.start, end_date: period.end }, receipt: null }
  }
  return { spec, receipt: null }
}
