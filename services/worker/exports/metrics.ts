import { Counter, type Metrics } from '@sluice/runtime/metrics'

/** The metrics of exports; docs/operations.md says which to watch. */
export interface ExportMetrics {
  rows: Counter
  bytes: Counter
}

/** Registers the metrics of exports. */
export function exportMetrics(metrics: Metrics): ExportMetrics {
  const registers = [metrics]
  return {
    rows: new Counter({
      name: 'sluice_worker_export_rows_total',
      help: 'Rows that were written to files of exports, repeated ones included.',
      registers,
    }),
    bytes: new Counter({
      name: 'sluice_worker_export_bytes_total',
      help: 'Bytes of files of exports that were stored, repeated ones included.',
      registers,
    }),
  }
}
