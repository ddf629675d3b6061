import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import {
  type BreakdownEntry,
  type Grouping,
  type MeasuredRange,
  type Period,
  statsLimits,
  type StatsResult,
} from '@sluice/contracts/stats'
import { isTimeUnit } from '@sluice/event-store/calendar'
import { earliestRead } from '@sluice/event-store/stats/earliest-read'
import { evaluateStats, type RangeNumbers } from '@sluice/event-store/stats/evaluate-stats'
import type { StatsGroup } from '@sluice/event-store/stats/groups'
import type { ApiRequest, Route } from '@sluice/http/route'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, type FieldTexts, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { rangeOf, type RequestedStats, statsSpecOf } from './read-stats-request.ts'

export interface StatsDeps {
  eventReader: AnalysisReader
  sites: ReadableSites
  readCompleteUntil: ReadCompleteUntil
}

/** The fields and reasons of the 400 for evaluations that are too large. */
export const statsTooLarge: NonNullable<FieldTexts['tooLarge']> = {
  buckets: {
    field: 'group_by',
    reason: `must make at most ${statsLimits.bucketsMax} buckets of the range, minutes of at most ${statsLimits.minutesHoursMax} hours: ask for a shorter one, or for longer buckets`,
  },
  rows: {
    field: 'group_by',
    reason: `must make at most ${statsLimits.entriesMax} pairs with event types: ask for a shorter range, longer buckets or a lower limit`,
  },
}

/**
 * `GET /api/v1/stats` (docs/http-interface.md#stats-answer): 200 with a StatsResult. Throws 400 for wrong parameters,
 * 404 `Site not found`, ClickHouseError.
 */
export function statsRoute(deps: StatsDeps): Route {
  return handleAnalysis(operations.stats, deps.eventReader, async ({ query, credential, receivedAt, log }, signal) => {
    const request = { credential, receivedAt, signal }
    const range = rangeOf(query, receivedAt)
    log({ site_id: query.site_id, metric: query.metric })
    const site = await requireReadableSite(deps.sites, request, query.site_id)
    const spec = statsSpecOf(query, range, site.settings, credential.environment)
    return statsResult(spec, query.period, request, deps)
  })
}

/**
 * Evaluates a spec; the result repeats the `period` of its request. Throws 400 for a request that is too large,
 * ClickHouseError.
 */
export async function statsResult(
  spec: RequestedStats,
  period: Period | undefined,
  request: Pick<ApiRequest, 'receivedAt' | 'credential' | 'signal'>,
  { eventReader, readCompleteUntil }: StatsDeps,
): Promise<StatsResult> {
  // Taken before the events are read: events that arrive in between may be counted as well.
  const completeUntilMs = readCompleteUntil(earliestRead(spec))
  const numbers = await runAnalysis(eventReader, request, (runner) => evaluateStats(spec, runner), {
    kind: spec.metric,
    tooLarge: statsTooLarge,
    conditions: { filter: spec.conditions },
  })
  const { siteId, metric, groupBy } = spec
  const { breakdown, ...measured } = toMeasuredRange(numbers, groupBy)
  return {
    metric,
    ...measured,
    ...(period === undefined ? {} : { period }),
    site_id: siteId,
    start_date: numbers.start,
    end_date: numbers.end,
    timezone: spec.timeZone,
    ...(groupBy === undefined ? {} : { group_by: groupBy }),
    ...(breakdown === undefined ? {} : { breakdown }),
    complete_until: completeUntilMs,
    ...(numbers.compared && {
      compare: {
        start_date: numbers.compared.start,
        end_date: numbers.compared.end,
        ...toMeasuredRange(numbers.compared, groupBy),
      },
    }),
    timestamp: request.receivedAt,
  }
}

function toMeasuredRange({ value, isEstimated, groups }: RangeNumbers, groupBy: Grouping | undefined): MeasuredRange {
  return {
    value,
    ...(isEstimated ? { estimated: true } : {}),
    ...(groups && { breakdown: groups.map((group) => toBreakdownEntry(group, groupBy)) }),
  }
}

function toBreakdownEntry(
  { start, group, eventType, value, isEstimated }: StatsGroup,
  groupBy: Grouping | undefined,
): BreakdownEntry {
  const key = eventType ?? group
  return {
    timestamp: start,
    ...(key === undefined ? {} : { key }),
    ...(group === undefined || groupBy === undefined || isTimeUnit(groupBy) ? {} : { [groupBy]: group }),
    ...(eventType === undefined ? {} : { event_type: eventType }),
    value,
    ...(isEstimated ? { estimated: true } : {}),
  }
}
