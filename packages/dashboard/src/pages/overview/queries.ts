import { isOneOf } from '@sluice/contracts/conditions'
import type { Environment } from '@sluice/contracts/scopes'
import type { BreakdownEntry, Dimension, Metric, StatsResult } from '@sluice/contracts/stats'
import type { BatchEntry } from '@sluice/contracts/stats-batch'
import { requestOf } from '../../api/request.ts'
import type { StatsQuery } from '../../api/wire.ts'
import { type CsvRow, fileNameOf } from '../../format/csv.ts'
import { relativeOf } from '../../format/curl.ts'
import { formatIso } from '../../format/dates.ts'
import { valueLabel } from '../../format/sentences.ts'
import { formatCondition, isChoiceOf } from '../../state/conditions.ts'
import type { ViewQueries } from '../../state/hooks.ts'
import { datesOf } from '../../state/range.ts'
import type { NumberSource } from '../../ui/more-menu.tsx'
import { texts } from './messages.ts'

/** Metrics that groups by value can be ranked by; of rates, a single session would be the highest. */
const rankedMetrics = ['visitors', 'unique_sessions', 'event_count'] as const

/** The metric of panels: the chosen one where groups can be ranked by it. */
export const panelMetric = (metric: Metric): (typeof rankedMetrics)[number] =>
  isOneOf(rankedMetrics, metric) ? metric : 'visitors'

/** The result of one query of a batch; undefined where it failed alone. */
export function resultOf(entry: BatchEntry | undefined): StatsResult | undefined {
  return entry?.success === true ? entry.data : undefined
}

/** The key of what stands after the last listed group. */
export const otherKey = '(other)'

/** A group: its value, and how much it counts. */
export interface PanelRow {
  key: string
  value: number
  /** The value is an estimate. */
  estimated: boolean
}

/** The groups of a result, in its order; none without a result. */
export const rowsOf = (result: StatsResult | undefined): PanelRow[] =>
  (result?.breakdown ?? []).map(({ key = '', value, estimated = false }) => ({ key, value, estimated }))

/** The label of a group; the group without a referrer is direct traffic. */
export const groupLabel = (dimension: Dimension, key: string): string =>
  key === '' && dimension === 'referrer_host' ? texts.direct : valueLabel(dimension, key)

/** Files are named by site, metric, grouping, first and last day. */
function fileOf(statsQuery: StatsQuery, zone: string): string {
  const { start_date: startMs = 0, end_date: endMs = 0, group_by: by } = statsQuery
  const { from, to } = datesOf({ startMs, endMs, isOpen: false }, zone)
  return fileNameOf([statsQuery.site_id, statsQuery.metric, ...(by === undefined ? [] : [`by-${by}`]), from, to], 'csv')
}

/**
 * A new alert rule on the query's metric, with its filter; none where the rule would count another environment's
 * events or would be refused.
 */
function alertLink(
  { site_id: siteId, metric, filter = [], environment }: StatsQuery,
  alertEnvironment: Environment | undefined,
): { alertHref?: string } {
  if (environment !== alertEnvironment) return {}
  const search = new URLSearchParams({ open: 'new', metric })
  for (const each of filter) if ('property' in each) search.append('f', formatCondition(each))
  return { alertHref: `/sites/${encodeURIComponent(siteId)}/alerts?${search.toString()}` }
}

/**
 * A breakdown's query without the choice of values of its dimension: its answer has the values that could be chosen,
 * too.
 */
export function withoutChoice(statsQuery: StatsQuery, dimension: Dimension): StatsQuery {
  const { filter = [], ...others } = statsQuery
  const left = filter.filter((each) => !('property' in each) || !isChoiceOf(dimension, each))
  return left.length === 0 ? others : { ...others, filter: left }
}

/** The copies and downloads of a headline number. */
export function numberSource(
  label: string,
  statsQuery: StatsQuery,
  result: StatsResult,
  { dates, alertEnvironment }: Pick<ViewQueries, 'dates' | 'alertEnvironment'>,
): NumberSource {
  const { timezone: zone } = result
  const request = requestOf('stats', { query: statsQuery })
  return {
    label,
    request,
    relativeRequest: relativeOf(request, dates),
    value: result.value,
    fileName: fileOf(statsQuery, zone),
    ...alertLink(statsQuery, alertEnvironment),
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

/** Rows that two queries have fetched together. */
interface JointRows {
  /** The second query. */
  statsQuery: StatsQuery
  rows: readonly { key: string; value: number }[]
}

/** The copies and downloads of a breakdown: by time for charts, by a dimension for panels. */
export function breakdownSource(
  label: string,
  statsQuery: StatsQuery,
  result: StatsResult,
  {
    dates,
    alertEnvironment,
    joint,
  }: Pick<ViewQueries, 'dates' | 'alertEnvironment'> & { joint?: JointRows | undefined },
): NumberSource {
  const { timezone: zone, breakdown = [], group_by: by } = result
  const rowOf = ({ timestamp = 0, key, value }: Partial<BreakdownEntry>): CsvRow =>
    key === undefined ? { timestamp: formatIso(timestamp, zone), value } : { [by as Dimension]: key, value }
  const request =
    joint === undefined
      ? requestOf('stats', { query: statsQuery })
      : requestOf('statsBatch', { body: { queries: [statsQuery, joint.statsQuery] } })
  return {
    label,
    request,
    relativeRequest: relativeOf(request, dates),
    fileName: fileOf(statsQuery, zone),
    rows: () => (joint?.rows ?? breakdown).map(rowOf),
    ...alertLink(statsQuery, alertEnvironment),
  }
}
