import { beginAtZero, Counter, Histogram, type Metrics } from '@sluice/runtime/metrics'

const states = ['sent', 'acknowledged', 'found', 'lost', 'recovered', 'doubled'] as const

/** The metrics of the canary; docs/operations.md says which to watch. */
export interface CanaryMetrics {
  count: (state: (typeof states)[number]) => void
  foundSeconds: Histogram
}

/** The metrics of the canary; docs/operations.md says what each state means. */
export function canaryMetrics(metrics: Metrics): CanaryMetrics {
  const registers = [metrics]
  const events = new Counter({
    name: 'sluice_canary_events_total',
    help: 'Events of the canary by state.',
    labelNames: ['state'] as const,
    registers,
  })
  beginAtZero(events, { state: states })
  return {
    count: (state) => {
      events.inc({ state })
    },
    foundSeconds: new Histogram({
      name: 'sluice_canary_found_seconds',
      help: 'Time from the acknowledgement of an event of the canary until a query found it in ClickHouse.',
      buckets: [0.5, 1, 2, 3, 5, 10, 15, 30, 60, 300, 3_600],
      registers,
    }),
  }
}
