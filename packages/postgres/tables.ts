import type { ColumnType, Generated, Kysely } from 'kysely'
import type { Criteria } from '@sluice/contracts/conditions'
import type { ErasureKind, ErasureStatus } from '@sluice/contracts/erasures'
import type { EventKey, ExportSpec, ExportStatus, ExportType, Frequency } from '@sluice/contracts/exports'
import type { ImportStatus, ImportType } from '@sluice/contracts/imports'
import type { Lane } from '@sluice/contracts/lanes'
import type { RateLimits } from '@sluice/contracts/rate-limits'
import type { Environment, Scope } from '@sluice/contracts/scopes'
import type {
  AlertHistoryTable,
  AlertRulesTable,
  AlertSitesTable,
  AttemptsTable,
  DeliveriesTable,
  EmailTestsTable,
  EndpointsTable,
  SummariesTable,
} from './notification-tables.ts'
import type { Defaulted, LeaseColumns } from './table-columns.ts'

/** The database, or a transaction of it. */
export type Db = Kysely<Tables>

/** TypeScript types of the rows in Postgres. The migrations define the tables. */
export interface Tables {
  alert_history: AlertHistoryTable
  alert_rules: AlertRulesTable
  alert_sites: AlertSitesTable
  api_keys: ApiKeysTable
  attempts: AttemptsTable
  canary_events: CanaryEventsTable
  canary_runs: RecurringJobsTable
  chores: ChoresTable
  cohorts: CohortsTable
  deliveries: DeliveriesTable
  email_tests: EmailTestsTable
  endpoints: EndpointsTable
  erasures: ErasuresTable
  export_parts: ExportPartsTable
  export_schedules: ExportSchedulesTable
  exports: ExportsTable
  import_segments: ImportSegmentsTable
  imports: ImportsTable
  log_watermarks: LogWatermarksTable
  replay_positions: ReplayPositionsTable
  shards: ShardsTable
  sites: SitesTable
  summaries: SummariesTable
  uploads: UploadsTable
}

interface ApiKeysTable {
  key_id: string
  name: string
  environment: Environment
  scopes: Scope[]
  /** The sites that the key is bound to; null: every site. */
  site_ids: string[] | null
  /** Null: the defaults. */
  rate_limits: RateLimits | null
  /** Null: every origin. */
  allowed_origins: Defaulted<string[] | null>
  /** SHA-256 in hex; the key itself is not stored. */
  hash: string
  hint: string
  /** True for keys that SLUICE_ADMIN_KEY, a first start or `npm run admin-key` created, and for their replacements. */
  bootstrap: Defaulted<boolean>
  created_at: Generated<Date>
  last_used_at: Defaulted<Date | null>
  expires_at: Defaulted<Date | null>
  revoked_at: Defaulted<Date | null>
  /** Id of the key that replaces it; null when it was not rotated. */
  rotated_to: Defaulted<string | null>
  /** Set by every change of the key's rights. */
  changed_at: Defaulted<Date>
  /** The transaction that set `changed_at`. A trigger sets it, and processes poll for later ones. */
  changed_xid: Defaulted<string | null>
}

interface ImportsTable extends LeaseColumns {
  import_id: string
  /** The order of creation. A bigint, as are the counts of records. */
  seq: Generated<string>
  site_id: string
  environment: Environment
  type: ImportType
  status: ImportStatus
  /** SHA-256 of the uncompressed file, in hex. */
  sha256: string
  total_records: Defaulted<string>
  processed_records: Defaulted<string>
  failed_records: Defaulted<string>
  /** Why the import failed, for users. */
  error: Defaulted<string | null>
  key_id: string
  created_at: Date
  /** When the upload was complete. It is the `received_at` of the rows. */
  accepted_at: Date
  finished_at: Defaulted<Date | null>
}

interface ImportSegmentsTable {
  import_id: string
  n: number
  /** The blob of the records. */
  object: string
  /** The number of the segment's first record within the file, and the line where it begins, both from 1. Bigints. */
  first_record: string
  first_line: string
  records: number
  processed: Defaulted<number>
  failed: Defaulted<number>
  /** The blob of the segment's errors; null when there are none. */
  errors_object: Defaulted<string | null>
  positions: ColumnType<EndOffsets | null, string | null | undefined, string | null>
}

/** Offsets after the last blocks that were published, by partition of the log; bigints as text. */
export type EndOffsets = Readonly<Record<number, string>>

interface ErasuresTable extends LeaseColumns {
  erasure_id: string
  site_id: string
  kind: ErasureKind
  /** Hashes of the value (packages/event-store/erasures/erased-rows.ts); null without one, and 400 days after completion. */
  key_hash: Defaulted<string | null>
  row_key: Defaulted<string | null>
  /** Null unless the kind is `before`. */
  before: Defaulted<Date | null>
  status: ErasureStatus
  step: 'tombstone' | 'delete' | 'verify' | 'done'
  /** A bigint; null until the rows are counted. */
  count: Defaulted<string | null>
  key_id: string
  requested_at: Date
  /** The transaction that created the row; null for rows of earlier builds. Gateways poll for later ones. */
  created_xid: Generated<string | null>
  completed_at: Defaulted<Date | null>
  /** When ten units in a row had last failed. */
  failed_at: Defaulted<Date | null>
}

interface RecurringJobsTable extends LeaseColumns {
  name: string
  status: Defaulted<string>
}

interface ChoresTable extends RecurringJobsTable {
  /** The current run of the deletion of expired events; null when there is none. */
  run_at: Defaulted<Date | null>
  /** The last site that the run has processed. */
  after_site: Defaulted<string | null>
}

interface CanaryEventsTable {
  site_id: string
  event_id: string
  timestamp: Date
  acknowledged_at: Date
  /** Null while the event was not seen in the event store. */
  found_at: Defaulted<Date | null>
  /** Null when the event was found in time, or may still be. */
  lost_at: Defaulted<Date | null>
  /** Null when the event was never seen twice. */
  doubled_at: Defaulted<Date | null>
}

interface UploadsTable {
  /** The import that the upload becomes. */
  import_id: string
  key_id: string
  expires_at: Date
}

/** An export, a run of a schedule, or the definition of a schedule. A definition is never due. */
interface ExportsTable extends LeaseColumns {
  export_id: string
  /** The order of creation. A bigint, as are `rows` and `bytes`. */
  seq: Generated<string>
  /** The schedule of a run, and the time for which the run was planned; null for other exports. */
  schedule_id: Defaulted<string | null>
  occurrence: Defaulted<Date | null>
  site_id: string
  key_id: string
  name: string
  type: ExportType
  /** Written as JSON text. */
  spec: ColumnType<ExportSpec, string, string>
  status: ExportStatus
  /**
   * Events are read that were received at `received_from` or later (null: no limit), and before `received_until` (null
   * for a schedule).
   */
  received_from: Defaulted<Date | null>
  received_until: Defaulted<Date | null>
  rows: Defaulted<string>
  bytes: Defaulted<string>
  /** Percent. */
  progress: Defaulted<number>
  /** The blob of the file, and its multipart upload while that runs. */
  object: Defaulted<string | null>
  upload_id: Defaulted<string | null>
  /** The key of the last row in the recorded parts; null when there are none. */
  after_key: ColumnType<EventKey | null, string | null | undefined, string | null>
  etag: Defaulted<string | null>
  /** How often the file was begun again because its upload could not be completed. */
  restarts: Defaulted<number>
  /**
   * The criteria of the cohort when the file was begun. Null when it is not begun, or without a cohort. Written as JSON
   * text.
   */
  cohort_criteria: ColumnType<Criteria | null, string | null | undefined, string | null>
  /** Why the export failed, or why its file was removed early, for users. */
  error: Defaulted<string | null>
  created_at: Date
  finished_at: Defaulted<Date | null>
  expires_at: Defaulted<Date | null>
}

/** A recorded part of the file of an export. */
interface ExportPartsTable {
  export_id: string
  /** From 1. */
  n: number
  etag: string
  /** A bigint. */
  bytes: string
}

interface ExportSchedulesTable extends LeaseColumns {
  /** The id of the export that defines the schedule. */
  schedule_id: string
  status: Defaulted<'active' | 'failed'>
  frequency: Frequency
  /** One of the occurrences. All others are counted from it. */
  anchor: Date
  /**
   * The next occurrence. While a run for it is tried again, `due_at` is a later time; while the schedule is paused, it
   * is null.
   */
  next_run: Date
  paused: Defaulted<boolean>
  /** The start of the next run's range of receipt times; null before the first run. */
  last_cutoff: Defaulted<Date | null>
  error: Defaulted<string | null>
}

interface LogWatermarksTable {
  /** `EventLog.id()` of the live log. The id of the backfill log ends in `.backfill`. */
  log_id: string
  partition: number
  lane: Defaulted<Lane>
  /** Every accepted event that was received before this time can be read; null when no writer has reported yet. */
  complete_until: Date | null
}

interface ReplayPositionsTable {
  /** `EventLog.id()` of the log of dead letters. */
  log_id: string
  partition: number
  /** A bigint, which the driver returns as text. */
  next_offset: string
}

interface ShardsTable {
  number: number
  doubling_since: Defaulted<Date | null>
}

interface SitesTable {
  site_id: string
  /** Null: the site's id. */
  name: Defaulted<string | null>
  /** IANA name. */
  timezone: Defaulted<string>
  /** The `event_type` that `conversion_rate` counts; null: the default. */
  conversion_event: Defaulted<string | null>
  /** Null: events are kept for ever. */
  retention_days: Defaulted<number | null>
  created_at: Generated<Date>
  /** The key whose event or request first named the site; null for a site that was found by its events. */
  registered_by: Defaulted<string | null>
  /** When an administrator named or last changed the site; null for a site that an event registered. */
  changed_at: Defaulted<Date | null>
  /** The transaction that set `changed_at`. A trigger sets it, and processes poll for later ones. */
  changed_xid: Defaulted<string | null>
}

interface CohortsTable {
  cohort_id: string
  site_id: string
  name: string
  description: string | null
  /** In the form that criteriaSchema returns; written as JSON text. */
  criteria: ColumnType<Criteria, string, string>
  created_at: Generated<Date>
  updated_at: Defaulted<Date>
}
