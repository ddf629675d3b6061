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
  EndpointsTable,
  SummariesTable,
} from './notification-tables.ts'
import type { Defaulted, LeaseColumns } from './table-columns.ts'

/** The database, or a transaction of it. */
export type Db = Kysely<Tables>

/** The rows of Postgres as TypeScript types; the migrations define them. */
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
  /** True for keys made by SLUICE_ADMIN_KEY, a first start or `npm run admin-key`, and for their replacements. */
  bootstrap: Defaulted<boolean>
  created_at: Generated<Date>
  last_used_at: Defaulted<Date | null>
  expires_at: Defaulted<Date | null>
  revoked_at: Defaulted<Date | null>
  /** Id of the key that replaces it; null: it was not rotated. */
  rotated_to: Defaulted<string | null>
  /** Set by every change of the key's rights. */
  changed_at: Defaulted<Date>
  /** The transaction that set `changed_at`, by a trigger; processes poll for later ones. */
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
  /** SHA-256 of the unpacked file, in hex. */
  sha256: string
  total_records: Defaulted<string>
  processed_records: Defaulted<string>
  failed_records: Defaulted<string>
  /** Why the import failed, for users. */
  error: Defaulted<string | null>
  key_id: string
  created_at: Date
  /** When the upload was complete, which the rows have as `received_at`. */
  accepted_at: Date
  finished_at: Defaulted<Date | null>
}

interface ImportSegmentsTable {
  import_id: string
  n: number
  /** The blob of the records. */
  object: string
  /** The number of its first record in the file, and the line on which that begins, both from 1. Bigints. */
  first_record: string
  first_line: string
  records: number
  processed: Defaulted<number>
  failed: Defaulted<number>
  /** The blob of its errors; null: none. */
  errors_object: Defaulted<string | null>
  positions: ColumnType<LogPositions | null, string | null | undefined, string | null>
}

/** Offsets after the last blocks that were published, by partition of the log; bigints as text. */
export type LogPositions = Readonly<Record<number, string>>

interface ErasuresTable extends LeaseColumns {
  erasure_id: string
  site_id: string
  kind: ErasureKind
  /** Hashes of the value (packages/event-store/erased-rows.ts); null without one, and 400 days after completion. */
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
  /** The transaction that made the row; null for rows of earlier builds. Gateways poll for later ones. */
  created_xid: Generated<string | null>
  completed_at: Defaulted<Date | null>
  /** When ten units in a row had failed last. */
  failed_at: Defaulted<Date | null>
}

interface RecurringJobsTable extends LeaseColumns {
  name: string
  status: Defaulted<string>
}

interface ChoresTable extends RecurringJobsTable {
  /** The run of the deletion of expired events that is under way; null: none is. */
  run_at: Defaulted<Date | null>
  /** The last site that the run has dealt with. */
  after_site: Defaulted<string | null>
}

interface CanaryEventsTable {
  site_id: string
  event_id: string
  timestamp: Date
  acknowledged_at: Date
  /** Null: it was not seen in the event store yet. */
  found_at: Defaulted<Date | null>
  /** Null: it was found in time, or may still be. */
  lost_at: Defaulted<Date | null>
  /** Null: it was never seen twice. */
  doubled_at: Defaulted<Date | null>
}

interface UploadsTable {
  /** The import that the upload becomes. */
  import_id: string
  key_id: string
  expires_at: Date
}

/** An export, a run of a schedule, or the definition of a schedule, which is never due itself. */
interface ExportsTable extends LeaseColumns {
  export_id: string
  /** The order of creation. A bigint, as are `rows` and `bytes`. */
  seq: Generated<string>
  /** The schedule whose run it is, and the time for which that was planned; null: no run. */
  schedule_id: Defaulted<string | null>
  occurrence: Defaulted<Date | null>
  site_id: string
  key_id: string
  name: string
  type: ExportType
  /** Written as JSON text. */
  spec: ColumnType<ExportSpec, string, string>
  status: ExportStatus
  /** The events that are read were received from then on (null: whenever), until before then (null: a schedule). */
  received_from: Defaulted<Date | null>
  received_until: Defaulted<Date | null>
  rows: Defaulted<string>
  bytes: Defaulted<string>
  /** Percent. */
  progress: Defaulted<number>
  /** The blob of the file, and its upload in parts while that is under way. */
  object: Defaulted<string | null>
  upload_id: Defaulted<string | null>
  /** The last row that the recorded parts hold; null: none. */
  after_key: ColumnType<EventKey | null, string | null | undefined, string | null>
  etag: Defaulted<string | null>
  /** How often the file was begun anew, because its upload could not be completed. */
  restarts: Defaulted<number>
  /**
   * The criteria of the cohort when the file was begun; null: it is not begun, or names no cohort. Written as JSON
   * text.
   */
  cohort_criteria: ColumnType<Criteria | null, string | null | undefined, string | null>
  /** Why the export failed, for users. */
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
  /** The export that is its definition. */
  schedule_id: string
  status: Defaulted<'active' | 'failed'>
  frequency: Frequency
  /** One of the occurrences, from which all others are counted. */
  anchor: Date
  /** The occurrence that is next. `due_at` is another time while that is tried again, and null while it is paused. */
  next_run: Date
  paused: Defaulted<boolean>
  /** Where the next run by time of receipt begins; null before the first run. */
  last_cutoff: Defaulted<Date | null>
  error: Defaulted<string | null>
}

interface LogWatermarksTable {
  /** `EventLog.id()` of the live log; that of the backfill log ends in `.backfill`. */
  log_id: string
  partition: number
  lane: Defaulted<Lane>
  /** Every accepted event that was received until then can be read; null: no writer has reported yet. */
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
  /** The key whose event or request named the site first; null: the site was found by its events. */
  registered_by: Defaulted<string | null>
  /** Set when an administrator names or changes the site. Null: an event registered it. */
  changed_at: Defaulted<Date | null>
  /** The transaction that set `changed_at`, by a trigger; processes poll for later ones. */
  changed_xid: Defaulted<string | null>
}

interface CohortsTable {
  cohort_id: string
  site_id: string
  name: string
  description: string | null
  /** As criteriaSchema returns it; written as JSON text. */
  criteria: ColumnType<Criteria, string, string>
  created_at: Generated<Date>
  updated_at: Defaulted<Date>
}
