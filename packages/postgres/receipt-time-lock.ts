import { takeAdvisoryLock } from './advisory-lock.ts'
import type { Db } from './tables.ts'

/**
 * Locks the receipt times of a site until the end of the transaction. Two kinds of transactions take this lock: those
 * that accept an import of the site, and those that decide up to which time of receipt a run of a schedule reads.
 * Otherwise an import could be accepted at a time that a run has already treated as complete.
 */
export async function lockReceiptTimes(transaction: Db, siteId: string): Promise<void> {
  await takeAdvisoryLock(transaction, 'receiptTime', siteId)
}
