import type { ColumnType, Generated } from 'kysely'

/** A column that inserts may leave out and updates may set. */
export type Defaulted<T> = ColumnType<T, T | undefined, T>

/** The columns of every table of jobs (leases.ts). */
export interface LeaseColumns {
  /** When the job can be taken; null when there is nothing to do. */
  due_at: Defaulted<Date | null>
  /** Null when nobody has a lease on the job. */
  lease_until: Defaulted<Date | null>
  /** A bigint, which the driver returns as text. */
  lease: Generated<string>
  /** Numbers of units in a row without progress: all of them, and those whose failure the job itself caused. */
  tries: Generated<number>
  failures: Generated<number>
}
