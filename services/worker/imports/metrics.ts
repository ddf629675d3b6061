import { Counter, type Metrics } from '@sluice/runtime/metrics'

/** The metrics of imports; docs/operations.md says which to watch. */
export interface ImportMetrics {
  rows: Counter<'result'>
  pausedSeconds: Counter
}

export function importMetrics(metrics: Metrics): ImportMetrics {
  const registers = [metrics]
  return {
    rows: new Counter({
      name: 'sluice_worker_import_rows_total',
      help: 'Records of imports that were dealt with: accepted, or failed, which their import lists.',
      labelNames: ['result'],
      registers,
    }),
    pausedSeconds: new Counter({
      name: 'sluice_worker_import_paused_seconds',
      help: 'Time for which imports waited for live events, or for old ones that are not stored yet.',
      registers,
    }),
  }
}
