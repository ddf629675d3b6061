import { sql } from 'kysely'
import type { Db } from './tables.ts'

/** The first halves of the names of advisory locks: arbitrary numbers that are the same in every build. */
const lockNumbers = {
  registration: 5_757_006,
  upload: 5_757_007,
  cutoff: 5_757_008,
  webhook: 5_757_016,
  export: 5_757_017,
  cohort: 5_757_018,
} as const

/**
 * Takes an advisory lock of Postgres until the end of the transaction; waits while another transaction holds it. `key`:
 * the id of the site or the key that the lock is for.
 */
export async function takeAdvisoryLock(transaction: Db, name: keyof typeof lockNumbers, key: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${lockNumbers[name]}, hashtext(${key}))`.execute(transaction)
}
