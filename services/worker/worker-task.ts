import type { BlobStore } from '@sluice/blobs/blob-store'
import type { EventLog } from '@sluice/event-log/log'
import type { QueryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { EventEraser } from '@sluice/event-store/erasures/event-eraser'
import type { ExportReader } from '@sluice/event-store/exports/export-reader'
import type { EventInserter } from '@sluice/event-store/insert/event-inserter'
import type { LeaseOptions } from '@sluice/leases/run-leases'
import type { Outbound } from '@sluice/outbound/outbound'
import type { Postgres } from '@sluice/postgres/open'
import type { Metrics } from '@sluice/runtime/metrics'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { Component } from '@sluice/runtime/supervisor'

export interface WorkerEngines {
  log: EventLog
  /** The backfill log beside `log`. */
  backfill: EventLog
  inserter: EventInserter
  eraser: EventEraser
  exportReader: ExportReader
  /** For the measurements of alert rules. */
  eventReader: QueryReader
  postgres: Postgres
  /** The files of imports and exports. */
  blobs: BlobStore
  /** Opens the secrets and the targets of webhooks. */
  secrets: SecretCipher
  outbound: Outbound
}

/** Dependencies of every task besides the engines: most of them for `runLeases`. */
export interface TaskContext extends Required<
  Pick<LeaseOptions<unknown>, 'clock' | 'logger' | 'leaseMetrics' | 'stopping'>
> {
  /** For metrics of its own. */
  metrics: Metrics
}

/**
 * Wires one task of the worker to its engines. Most tasks take the jobs of one kind from a table under leases; the others
 * repeat something at an interval, such as the removal of old files.
 */
export type WorkerTask = (engines: WorkerEngines, context: TaskContext) => Component
