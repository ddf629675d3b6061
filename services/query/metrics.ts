import { type Metric, metrics as statsMetrics } from '@sluice/contracts/stats'
import { beginAtZero, Histogram, type Metrics } from '@sluice/runtime/metrics'

const otherKinds = [
  'alert_preview',
  'cohort',
  'cohort_preview',
  'events',
  'funnel',
  'live',
  'properties',
  'retention',
] as const

/** A metric of the statistics, or another analysis. Never a name that users chose. */
export type AnalysisKind = Metric | (typeof otherKinds)[number]

/** Records how long an analysis took, in seconds. */
export type ObserveAnalysis = (kind: AnalysisKind, seconds: number) => void

/** Registers the histogram of the analyses' durations. */
export function analysisTimes(metrics: Metrics): ObserveAnalysis {
  const seconds = new Histogram({
    name: 'sluice_query_question_seconds',
    help: 'Time of a query, with the wait for its turn, that was answered or could not be answered now.',
    labelNames: ['metric'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [metrics],
  })
  beginAtZero(seconds, { metric: [...statsMetrics, ...otherKinds] })
  return (kind, duration) => {
    seconds.observe({ metric: kind }, duration)
  }
}
