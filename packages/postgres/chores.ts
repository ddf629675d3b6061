import { sql } from 'kysely'
import type { LeaseTable } from '@sluice/leases/lease-table'
import { leaseEnd, leaseTable, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'

/** Work that recurs, once for all workers; its name is the job. Each name is a row that a migration makes. */
export interface Chore {
  name: string
}

/** The chores as jobs. One that fails again and again is repeated an hour later. */
export function choreLeases(postgres: Postgres): LeaseTable<Chore> {
  const leases = leaseTable(postgres, 'chores', ({ name }) => ({ name }))
  return {
    ...leases,
    fail: (lease, _error, now) =>
      postgres.run((db) =>
        updateHeld(
          db,
          'chores',
          lease,
          sql`status = 'failed', failures = 0, due_at = ${new Date(now + failedRetryMs)}`,
        ),
      ),
    release: (lease, dueAt, options) =>
      dueAt === null
        ? postgres.run((db) =>
            updateHeld(db, 'chores', lease, sql`due_at = CASE WHEN status = 'failed' THEN due_at END, ${leaseEnd}`),
          )
        : leases.release(lease, dueAt, options),
  }
}

const failedRetryMs = 3_600_000
