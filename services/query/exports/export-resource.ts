import { type ExportResource, type ExportType, exportTypes } from '@sluice/contracts/exports'
import { grants, type Scope } from '@sluice/contracts/scopes'
import type { ExportRecord } from '@sluice/postgres/export-records'

/** The scope that exports of a type need: who may read users' fields may export them. */
export function scopeOfType(type: ExportType): Scope {
  return type === 'users' || type === 'cohort' ? 'cohorts:read' : 'stats:read'
}

/** The types of exports that a key may make and see. */
export function permittedTypes(held: readonly Scope[]): readonly ExportType[] {
  return exportTypes.filter((type) => grants(held, scopeOfType(type)))
}

/** Converts a stored export to its form in responses; times are in Unix ms. */
export function toExportResource(record: ExportRecord): ExportResource {
  const { spec, scheduled } = record
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
      next_run: scheduled.nextRun.getTime(),
      paused: scheduled.paused,
    },
    created_at: record.createdAt.getTime(),
    finished_at: record.finishedAt?.getTime() ?? null,
    expires_at: record.expiresAt?.getTime() ?? null,
    error: record.error,
  }
}
