import type { Metric } from '@sluice/contracts/stats'

/** Columns whose distinct values the metrics count. */
export const distinctKeyColumns = {
  unique_users: 'user_key',
  unique_sessions: 'session_key',
  visitors: 'visitor_key',
} as const

/** Whether the metric is computed from sessions, and not from single events. */
export function isSessionMetric(metric: Metric): boolean {
  return metric === 'avg_session_duration' || metric === 'bounce_rate' || metric === 'conversion_rate'
}

/** The column whose distinct values the metric counts; undefined for other metrics. */
export function distinctKeyOf({ metric }: { metric: Metric }): string | undefined {
  return metric in distinctKeyColumns ? distinctKeyColumns[metric as keyof typeof distinctKeyColumns] : undefined
}
