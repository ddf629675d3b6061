import { sql } from 'kysely'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { leaseTable, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import { recurringJobLeases } from './recurring-jobs.ts'

/** A run of the deletion of expired events, which takes as many units of work as the sites need. */
export interface RetentionRun {
  /** Unix ms: the time that the ages of events are counted to. */
  at: number
  /** The last site, in the order of ids, that it has dealt with. */
  afterSite: string
}

/** The recurring job that deletes expired events. */
export interface RetentionJob {
  name: string
  /** The run that is under way; null: none is. */
  run: RetentionRun | null
}

/**
 * The runs of the deletion of expired events in Postgres. Every method throws AppError 503 while Postgres is unavailable,
 * and those that take a lease throw LeaseLost without it.
 */
export interface RetentionRunStore {
  leases: LeaseTable<RetentionJob>
  /** Notes how far a run is. */
  advance(lease: LeaseKey, run: RetentionRun): Promise<void>
  /** Notes that no run is under way. */
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
