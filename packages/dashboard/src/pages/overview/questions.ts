import { isOneOf } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { BreakdownEntry, Dimension, Metric, StatsResult } from '@sluice/contracts/stats'
import type { BatchEntry } from '@sluice/contracts/stats-batch'
import { requestOf } from '../../api/request.ts'
import type { StatsQuestion } from '../../api/wire.ts'
import { type CsvRow, fileNameOf } from '../../format/csv.ts'
import { relativeOf } from '../../format/curl.ts'
import { formatIso } from '../../format/dates.ts'
import { formatCondition, isChoiceOf } from '../../state/conditions.ts'
import type { Questions } from '../../state/hooks.ts'
import { datesOf } from '../../state/range.ts'
import type { NumberSource } from '../../ui/numbers.tsx'

/** Metrics that groups by value can be ranked by; of rates, a single session would be the highest. */
const rankedMetrics = ['visitors', 'unique_sessions', 'event_count'] as const

/** The metric of panels: the chosen one where groups can be ranked by it. */
export const panelMetric = (metric: Metric): (typeof rankedMetrics)[number] =>
  isOneOf(rankedMetrics, metric) ? metric : 'visitors'

/** The result of one question of a batch; undefined where it failed alone. */
export function resultOf(entry: BatchEntry | undefined): StatsResult | undefined {
  return entry?.success === true ? entry.data : undefined
}

/** The key of what stands after the last listed group. */
export const otherKey = '(other)'

/** Files are named by site, metric, grouping, first and last day. */
function fileOf(question: StatsQuestion, zone: string): string {
  const { start_date: startMs = 0, end_date: endMs = 0, group_by: by } = question
  const { from, to } = datesOf({ startMs, endMs, isOpen: false }, zone)
  return fileNameOf([question.site_id, question.metric, ...(by === undefined ? [] : [`by-${by}`]), from, to], 'csv')
}

/**
 * A new alert rule on the question's metric, with its filter; none where the rule would count another environment's
 * events or would be refused.
 */
function alertLink(
  { site_id: siteId, metric, filter = [], environment }: StatsQuestion,
  alertEnvironment: Environment | undefined,
): { alertHref?: string } {
  if (environment !== alertEnvironment) return {}
  const search = new URLSearchParams({ open: 'new', metric })
  for (const each of filter) if ('property' in each) search.append('f', formatCondition(each))
  return { alertHref: `/sites/${encodeURIComponent(siteId)}/alerts?${search.toString()}` }
}

/**
 * A breakdown's question without the choice of values of its dimension: its answer has the values that could be chosen,
 * too.
 */
export function withoutChoice(question: StatsQuestion, dimension: Dimension): StatsQuestion {
  const { filter = [], ...others } = question
  const left = filter.filter((each) => !('property' in each) || !isChoiceOf(dimension, each))
  return left.length === 0 ? others : { ...others, filter: left }
}

/** What can be taken away of a headline number. */
export function numberSource(
  label: string,
  question: StatsQuestion,
  result: StatsResult,
  { dates, alertEnvironment }: Pick<Questions, 'dates' | 'alertEnvironment'>,
): NumberSource {
  const { timezone: zone } = result
  const request = requestOf('stats', { query: question })
  return {
    label,
    request,
    relativeRequest: relativeOf(request, dates),
    value: result.value,
    fileName: fileOf(question, zone),
    ...alertLink(question, alertEnvironment),
    rows: () => [
      {
        site_id: result.site_id,
        metric: result.metric,
        start_date: formatIso(result.start_date, zone),
        end_date: formatIso(result.end_date, zone),
        value: result.value,
      },
    ],
  }
}

/** Rows that two questions have fetched together. */
interface JointRows {
  /** The second question. */
  question: StatsQuestion
  rows: readonly { key: string; value: number }[]
}

/** What can be taken away of a breakdown: by time for charts, by a dimension for panels. */
export function breakdownSource(
  label: string,
  question: StatsQuestion,
  result: StatsResult,
  { dates, alertEnvironment, joint }: Pick<Questions, 'dates' | 'alertEnvironment'> & { joint?: JointRows | undefined },
): NumberSource {
  const { timezone: zone, breakdown = [], group_by: by } = result
  const rowOf = ({ timestamp = 0, key, value }: Partial<BreakdownEntry>): CsvRow =>
    key === undefined ? { timestamp: formatIso(timestamp, zone), value } : { [by as Dimension]: key, value }
  const request =
    joint === undefined
      ? requestOf('stats', { query: question })
      : requestOf('statsBatch', { body: { queries: [question, joint.question] } })
  return {
    label,
    request,
    relativeRequest: relativeOf(request, dates),
    fileName: fileOf(question, zone),
    rows: () => (joint?.rows ?? breakdown).map(rowOf),
    ...alertLink(question, alertEnvironment),
  }
}
