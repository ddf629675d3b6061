import { importTypes } from '@sluice/contracts/imports'
import { beginAtZero, Counter, type Metrics } from '@sluice/runtime/metrics'

/** The metrics of imports; docs/operations.md says which to watch. */
export interface ImportMetrics {
  rows: Counter<'type' | 'result'>
  pausedSeconds: Counter
}

/** Registers the metrics of imports. */
export function importMetrics(metrics: Metrics): ImportMetrics {
  const registers = [metrics]
  const rows = new Counter({
    name: 'sluice_worker_import_rows_total',
    help: 'Records of imports that were dealt with: accepted, or failed, which their import lists.',
    labelNames: ['type', 'result'] as const,
    registers,
  })
  beginAtZero(rows, { type: importTypes, result: ['accepted', 'failed'] })
  return {
    rows,
    pausedSeconds: new Counter({
      name: 'sluice_worker_import_paused_seconds_total',
      help: 'Time for which imports waited for live events, or for old ones that are not stored yet.',
      registers,
    }),
  }
}
