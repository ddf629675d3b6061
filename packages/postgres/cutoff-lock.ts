import { takeAdvisoryLock } from './advisory-lock.ts'
import type { Db } from './tables.ts'

/**
 * Takes the lock of a site until the end of the transaction. Transactions that accept an import of the site, and those
 * that decide up to which time of receipt a run of a schedule reads, need it: otherwise an import could be accepted for
 * a time that the run takes as complete.
 */
export async function lockCutoff(transaction: Db, siteId: string): Promise<void> {
  await takeAdvisoryLock(transaction, 'cutoff', siteId)
}
