import type { Metric } from '@sluice/contracts/stats'

/** Columns whose distinct values the metrics count. */
export const distinctKeyColumns = {
  unique_users: 'user_key',
  unique_sessions: 'session_key',
  visitors: 'visitor_key',
} as const

/** The column whose distinct values the metric counts; undefined for other metrics. */
export function distinctKeyOf({ metric }: { metric: Metric }): string | undefined {
  return metric in distinctKeyColumns ? distinctKeyColumns[metric as keyof typeof distinctKeyColumns] : undefined
}
