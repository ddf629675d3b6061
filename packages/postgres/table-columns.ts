import type { ColumnType, Generated } from 'kysely'

/** A column that inserts may leave out and updates may set. */
export type Defaulted<T> = ColumnType<T, T | undefined, T>

/** The columns of every table of jobs (leases.ts). */
export interface LeaseColumns {
  /** When the job can be taken; null: there is nothing to do. */
  due_at: Defaulted<Date | null>
  /** Null: nobody holds the job. */
  lease_until: Defaulted<Date | null>
  /** A bigint, which the driver returns as text. */
  lease: Generated<string>
  /** Units in a row without progress; those whose failure was the job’s own. */
  tries: Generated<number>
  failures: Generated<number>
}
