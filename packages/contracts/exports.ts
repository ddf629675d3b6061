import type { Filter } from './conditions.ts'
import type { Page } from './paging.ts'
import type { Environment } from './scopes.ts'
import type { Grouping, Metric } from './stats.ts'

/** Kinds of rows of a file. */
export const exportTypes = ['events', 'users', 'sessions', 'stats', 'cohort'] as const
export type ExportType = (typeof exportTypes)[number]

/** How the rows are written: `json` is one array, `ndjson` one object a line. */
export const exportFormats = ['csv', 'json', 'ndjson', 'parquet'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** How the file is compressed; Parquet compresses by itself. */
export const compressions = ['gzip', 'zstd'] as const
export type Compression = (typeof compressions)[number]

/** How often a scheduled export runs. */
export const frequencies = ['hourly', 'daily', 'weekly', 'monthly'] as const
export type Frequency = (typeof frequencies)[number]

/** Whether runs of this frequency may have the grouping: minutes are counted over `statsLimits.minutesHoursMax` only. */
export function mayGroup(grouping: Grouping | null | undefined, frequency: Frequency): boolean {
  return grouping !== 'minute' || frequency === 'hourly'
}

/**
 * `queued → processing → completed | failed`, and `expired` once the file is removed. A deleted export has no record.
 */
export const exportStatuses = ['queued', 'processing', 'completed', 'failed', 'cancelled', 'expired'] as const
export type ExportStatus = (typeof exportStatuses)[number]

/** Limits of exports (docs/http-interface.md#exports). */
export const exportLimits = {
  /** Code points of an export's name. */
  nameLengthMax: 256,
  /** Days after its completion for which a file can be downloaded. */
  fileRetentionDays: 7,
  /** Days after its end for which the record of an export is kept; the latest run of a schedule stays. */
  recordRetentionDays: 90,
  /** Exports of a site that one key has requested and that have not ended. */
  waitingPerKeyMax: 100,
  schedulesPerSiteMax: 100,
} as const

/** The content and the format of a file, in the terms of the request. */
export interface ExportSpec {
  type: ExportType
  format: ExportFormat
  /** Absent: none. */
  compression?: Compression
  environment: Environment | 'all'
  /** Range of the events' timestamps, Unix ms: from `start_date`, until before `end_date`. Absent: no limit. */
  start_date?: number
  end_date?: number
  /** Conditions that events meet, or that users and sessions have such an event. */
  filter?: Filter
  /**
   * A cohort. The type `cohort` exports its users; the other types export only the events, users or sessions of its
   * users.
   */
  cohort_id?: string
  /** Only for `stats`. */
  metric?: Metric
  group_by?: Grouping
  /** Whether CSV cells that a spreadsheet would run are guarded (csv-cells.ts). */
  csv_safe: boolean
}

/** When a schedule makes its runs. */
export interface Scheduled {
  frequency: Frequency
  /** Unix ms; in the past: at once. */
  next_run: number
  /** No run is made while it is true. */
  paused: boolean
}

/** The body of POST /api/v1/exports. */
export interface CreateExportBody extends Partial<Omit<ExportSpec, 'type' | 'format'>> {
  site_id: string
  type: ExportType
  format: ExportFormat
  name?: string
  scheduled?: Partial<Scheduled> & Pick<Scheduled, 'frequency'>
}

/** The body of PUT /api/v1/exports/:export_id. */
export interface UpdateExportBody {
  site_id?: string
  name?: string
  scheduled?: Partial<Scheduled>
}

/** The validated query of GET /api/v1/exports. */
export interface ListExportsQuery extends Page {
  site_id: string
}

/**
 * Record of an export (docs/http-interface.md#export-record); times are in Unix ms. The record of a schedule has the
 * status, the counts and the error of its latest run, and is `queued` before the first run.
 */
export interface ExportResource extends Required<Pick<ExportSpec, 'type' | 'format' | 'environment' | 'csv_safe'>> {
  export_id: string
  site_id: string
  name: string
  compression: Compression | null
  start_date: number | null
  end_date: number | null
  filter: Filter | null
  cohort_id: string | null
  metric: Metric | null
  group_by: Grouping | null
  status: ExportStatus
  rows: number
  /** Size of the file in bytes; 0 before it is complete. */
  bytes: number
  /** Percent of the work that is done, an estimate. */
  progress: number
  scheduled: Scheduled | null
  created_at: number
  finished_at: number | null
  /** When the file is removed; null before it is there. */
  expires_at: number | null
  /** Why the export failed, or why its file was removed early. */
  error: string | null
}

/** One run of a schedule: an export with an id of its own. */
export interface ExportRun {
  export_id: string
  status: ExportStatus
  /**
   * The range that the run covers: times of receipt for events, timestamps for stats; null: everything before
   * `end_date`.
   */
  start_date: number | null
  end_date: number
  rows: number
  bytes: number
}

/**
 * The place of an event in the order of a site's events: its timestamp in Unix ms, then the fields that distinguish
 * events of one time.
 */
export type EventKey = readonly [timestamp: number, eventId: string, environment: string]
