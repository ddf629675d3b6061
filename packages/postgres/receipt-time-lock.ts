import { takeAdvisoryLock } from './advisory-lock.ts'
import type { Db } from './tables.ts'

/**
 * Locks the receipt times of a site until the end of the transaction. Transactions that accept an import of the site,
 * and those that decide up to which time of receipt a run of a schedule reads, take this lock: otherwise an import
 * could be accepted at a time before which the run takes everything as complete.
 */
export async function lockReceiptTimes(transaction: Db, siteId: string): Promise<void> {
  await takeAdvisoryLock(transaction, 'cutoff', siteId)
}
