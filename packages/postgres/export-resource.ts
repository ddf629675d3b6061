import type { ExportResource } from '@sluice/contracts/exports'
import type { ExportRecord } from './export-records.ts'

/**
 * Converts a stored export to its form in responses; times are in Unix ms. It is here, because the webhook of a finished
 * export sends it as well.
 */
export function toExportResource(record: ExportRecord): ExportResource {
  const { spec, scheduled } = record
  const hasExpiry = record.status === 'completed' || record.status === 'expired'
  return {
    export_id: record.exportId,
    site_id: record.siteId,
    name: record.name,
    type: spec.type,
    format: spec.format,
    compression: spec.compression ?? null,
    environment: spec.environment,
    start_date: spec.start_date ?? null,
    end_date: spec.end_date ?? null,
    filter: spec.filter ?? null,
    cohort_id: spec.cohort_id ?? null,
    metric: spec.metric ?? null,
    group_by: spec.group_by ?? null,
    csv_safe: spec.csv_safe,
    status: record.status,
    rows: record.rows,
    bytes: record.bytes,
    progress: record.progress,
    scheduled: scheduled && {
      frequency: scheduled.frequency,
      next_run: scheduled.nextRun,
      paused: scheduled.paused,
    },
    created_at: record.createdAt,
    finished_at: record.finishedAt,
    // A run that is repeated keeps the time at which its file will expire.
    expires_at: hasExpiry ? record.expiresAt : null,
    error: record.error,
  }
}
