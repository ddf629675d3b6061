import { sql } from 'kysely'
import type { Db } from './tables.ts'

/** The first parts of the names of advisory locks: arbitrary numbers, which must be the same in every build. */
const lockNumbers = {
  registration: 5_757_006,
  upload: 5_757_007,
  receiptTime: 5_757_008,
  webhook: 5_757_016,
  export: 5_757_017,
  cohort: 5_757_018,
  adminKey: 5_757_019,
  backup: 5_757_020,
} as const

/**
 * Takes an advisory lock of Postgres until the end of the transaction. Waits while another transaction holds it. `key`
 * is the id of the site or key that is locked, or the URL of the backup; `adminKey` is one lock, with an empty `key`.
 */
export async function takeAdvisoryLock(transaction: Db, name: keyof typeof lockNumbers, key: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${lockNumbers[name]}, hashtext(${key}))`.execute(transaction)
}
