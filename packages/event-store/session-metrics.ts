import type { SessionMetric } from '@sluice/contracts/stats'

/** SQL of a metric of sessions: the mean of a term over the sessions. Each metric has its own unit and rounding. */
export interface SessionMetricSql {
  /** SQL of a session's term, over the columns duration_ms, event_count and is_converted. */
  term: string
  /** SQL of the metric's value, from the SQL of the sum of the terms and of the number of sessions, which is not 0. */
  valueSql: (sum: string, count: string) => string
  /** The value of a term of 1. */
  unit: number
}

/** SQL of the metrics of sessions, for statistics and for alert rules (docs/statistics.md). */
export const sessionMetricSql = {
  avg_session_duration: {
    term: 'duration_ms',
    valueSql: (sum, count) => `floor(${sum} / ${count} + 0.5) / 1000`,
    unit: 0.001,
  },
  bounce_rate: { term: 'event_count = 1', valueSql: percentSql, unit: 100 },
  conversion_rate: { term: 'is_converted', valueSql: percentSql, unit: 100 },
} as const satisfies Record<SessionMetric, SessionMetricSql>

/** Percent with 2 decimals, rounded half up. */
function percentSql(sum: string, count: string): string {
  return `floor(10000 * ${sum} / ${count} + 0.5) / 100`
}
