import { type AlertTrigger, comparesWindows, type MeasuredWindow, measuredWindow } from '@sluice/contracts/alert-state'
import type { Metric } from '@sluice/contracts/stats'
import { isSessionMetric } from '@sluice/contracts/stats'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { evaluateSessions, evaluateStats } from '../stats/evaluate-stats.ts'
import { type AlertSpec, countsEvents } from './alert-spec.ts'

export interface MeasureOptions {
  /** Whether the value over the window before is needed too. */
  comparesPrevious: boolean
  /**
   * Whether a value of 0 is distinguished from a window without events. Otherwise a value of 0 counts as no data. For
   * metrics of sessions, which are means, 0 is always distinguished from a window in which no session began.
   */
  distinguishesNoData: boolean
}

/** What has to be measured for a rule with this trigger. */
export function measureOptionsOf({ operator, noData }: Pick<AlertTrigger, 'operator' | 'noData'>): MeasureOptions {
  return { comparesPrevious: comparesWindows(operator), distinguishesNoData: noData !== 'zero' }
}

/**
 * Measures a spec over the window that ends at `end` (Unix ms, a whole minute). Events after `end` do not count, not
 * even those of sessions that continue. Throws the errors of `evaluateStats`.
 */
export async function measureAlert(
  spec: AlertSpec,
  end: number,
  { comparesPrevious, distinguishesNoData }: MeasureOptions,
  runner: QueryRunner,
): Promise<MeasuredWindow> {
  const { windowMs } = spec
  const previous = comparesPrevious ? await valueOf(spec, spec.metric, end - windowMs, runner) : 0
  if (isSessionMetric(spec.metric)) {
    const { value, hasSessions } = await evaluateSessions(statsSpecOf(spec, spec.metric, end), runner)
    return measuredWindow({ value, previous, hasData: hasSessions })
  }
  const value = await valueOf(spec, spec.metric, end, runner)
  const isCountNeeded = value === 0 && distinguishesNoData && !countsEvents(spec)
  const hasData = isCountNeeded && (await valueOf(spec, 'event_count', end, runner)) > 0
  return measuredWindow({ value, previous, hasData })
}

async function valueOf(spec: AlertSpec, metric: Metric, end: number, runner: QueryRunner): Promise<number> {
  const { value } = await evaluateStats(statsSpecOf(spec, metric, end), runner)
  return value
}

function statsSpecOf(spec: AlertSpec, metric: Metric, end: number): Parameters<typeof evaluateStats>[0] {
  const { siteId, environment, windowMs, eventType, filter = [], targetEvent } = spec
  return {
    siteId,
    environment,
    start: end - windowMs,
    end,
    // The number of events of one type needs no list of types.
    metric: metric === 'event_count_by_type' ? 'event_count' : metric,
    filters: eventType === undefined ? {} : { event_type: eventType },
    conditions: filter,
    ...(targetEvent === undefined ? {} : { targetEvent }),
    sessionsUntil: end,
    // The preview and `measureBatch` count exactly too. Reading all sessions of a large site exactly may exceed the
    // limits of a statement.
    exact: !isSessionMetric(metric),
  }
}
