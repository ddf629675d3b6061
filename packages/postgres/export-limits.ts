import { exportLimits } from '@sluice/contracts/exports'
import { conflict } from '@sluice/runtime/errors'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { countRows, requireBelowLimit } from './count-rows.ts'
import type { NewExport } from './export-records.ts'
import type { Db } from './tables.ts'

/**
 * Locks the creation of a site's exports until the end of the transaction. Without the lock, two concurrent
 * transactions would both count the exports before either has stored one.
 */
export async function lockExportCreation(transaction: Db, siteId: string): Promise<void> {
  await takeAdvisoryLock(transaction, 'export', siteId)
}

/**
 * Throws AppError `conflict` when the site has the maximum number of schedules, or the key has the maximum number of
 * unfinished exports of the site. Call `lockExportCreation` first.
 */
export async function requireExportAllowed(transaction: Db, { siteId, keyId, scheduled }: NewExport): Promise<void> {
  const { schedulesPerSiteMax, waitingPerKeyMax } = exportLimits
  const ofSite = transaction.selectFrom('exports').where('site_id', '=', siteId)
  if (scheduled) {
    const schedules = ofSite.innerJoin('export_schedules', 'export_schedules.schedule_id', 'exports.export_id')
    return requireBelowLimit(schedules, schedulesPerSiteMax, 'schedules of exports')
  }
  const waiting = ofSite.where('key_id', '=', keyId).where('schedule_id', 'is', null).where('due_at', 'is not', null)
  if ((await countRows(waiting)) < waitingPerKeyMax) return
  throw conflict(`The key has ${waitingPerKeyMax} exports of this site that have not ended: wait, or delete some`)
}
