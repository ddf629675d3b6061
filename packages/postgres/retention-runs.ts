import { sql } from 'kysely'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { leaseTable, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import { recurringJobLeases } from './recurring-jobs.ts'

/** A run of the deletion of expired events. With many sites it takes several units of work. */
export interface RetentionRun {
  /** Unix ms: the time at which the ages of events are computed. */
  at: number
  /** The last site, in the order of ids, that the run has processed. */
  afterSite: string
}

/** The recurring job that deletes expired events. */
export interface RetentionJob {
  name: string
  /** The current run; null when there is none. */
  run: RetentionRun | null
}

/**
 * The runs of the deletion of expired events in Postgres. Every method throws AppError `unavailable` while Postgres is
 * unavailable. Methods with a lease throw LeaseLostError when the lease has ended.
 */
export interface RetentionRunStore {
  leases: LeaseTable<RetentionJob>
  /** Records the progress of a run. */
  advance(lease: LeaseKey, run: RetentionRun): Promise<void>
  /** Records that there is no current run. */
  end(lease: LeaseKey): Promise<void>
}

/** The runs of this Postgres. */
export function retentionRunStore(postgres: Postgres): RetentionRunStore {
  const note = (lease: LeaseKey, at: Date | null, afterSite: string | null): Promise<void> =>
    postgres.run((db) => updateHeld(db, 'chores', lease, sql`run_at = ${at}, after_site = ${afterSite}`))
  return {
    leases: {
      ...recurringJobLeases(postgres),
      ...leaseTable(postgres, 'chores', ({ name, run_at: at, after_site: afterSite }) => ({
        name,
        run: at && { at: at.getTime(), afterSite: afterSite ?? '' },
      })),
    },
    advance: (lease, { at, afterSite }) => note(lease, new Date(at), afterSite),
    end: (lease) => note(lease, null, null),
  }
}
