import { sql } from 'kysely'
import { hourMs } from '@sluice/contracts/time-units'
import type { LeaseTable } from '@sluice/leases/lease-table'
import { leaseTable, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'

/** Recurring work, which one worker runs for all. A migration inserts a row for each name. */
export interface RecurringJob {
  name: string
}

const failedRetryMs = hourMs

/**
 * The recurring jobs of a table. A job that fails repeatedly is tried again after `retryMs`, an hour by default.
 * Workers take every row of the table.
 */
export function recurringJobLeases(
  postgres: Postgres,
  { table = 'chores', retryMs = failedRetryMs }: { table?: 'chores' | 'canary_runs'; retryMs?: number } = {},
): LeaseTable<RecurringJob> {
  return {
    ...leaseTable(postgres, table, ({ name }) => ({ name })),
    fail: (lease, _error, now) =>
      postgres.run((db) =>
        updateHeld(db, table, lease, sql`status = 'failed', failures = 0, due_at = ${new Date(now + retryMs)}`),
      ),
  }
}
