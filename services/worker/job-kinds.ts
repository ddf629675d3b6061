import type { EventLog } from '@sluice/event-log/log'
import type { EventInserter } from '@sluice/event-store/insert/insert-events'
import type { LeaseOptions } from '@sluice/leases/run-leases'
import type { Postgres } from '@sluice/postgres/open'
import type { Component } from '@sluice/runtime/supervisor'

export interface WorkerEngines {
  log: EventLog
  /** The log of old rows beside `log`. */
  backfill: EventLog
  inserter: EventInserter
  postgres: Postgres
}

/** What every kind of job receives besides the engines, for `runLeases`. */
export type JobContext = Required<Pick<LeaseOptions<unknown>, 'clock' | 'logger' | 'metrics' | 'stopping'>>

/** Wires the work of one kind of job to its table. */
export type JobKind = (engines: WorkerEngines, context: JobContext) => Component

/** The kinds of jobs that the worker does. */
export const jobKinds: readonly JobKind[] = []
