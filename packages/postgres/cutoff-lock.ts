import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** The first half of an advisory lock's name: an arbitrary number that is the same in every build. */
const cutoffLock = 5_757_008

/**
 * Takes the lock of a site until the end of the transaction. Transactions that accept an import of the site, and those that
 * decide up to which time of receipt a run of a schedule reads, need it: otherwise an import could be accepted for a time
 * that the run takes as complete.
 */
export async function lockCutoff(transaction: Kysely<Tables>, siteId: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${cutoffLock}, hashtext(${siteId}))`.execute(transaction)
}
