import { sql } from 'kysely'
import { exportLimits } from '@sluice/contracts/exports'
import { conflict } from '@sluice/runtime/errors'
import { takeAdvisoryLock } from './advisory-lock.ts'
import type { NewExport } from './export-records.ts'
import type { Db } from './tables.ts'

/**
 * Locks the creation of a site's exports until the end of the transaction. Without the lock, two concurrent
 * transactions would both count the exports before either has stored one.
 */
export async function lockCreation(transaction: Db, siteId: string): Promise<void> {
  await takeAdvisoryLock(transaction, 'export', siteId)
}

/**
 * Throws 409 when the site has the maximum number of schedules, or the key has the maximum number of unfinished exports
 * of the site. Call `lockCreation` first.
 */
export async function requireFurtherExport(transaction: Db, { siteId, keyId, scheduled }: NewExport): Promise<void> {
  const counted = scheduled
    ? sql`export_schedules JOIN exports ON export_id = export_schedules.schedule_id WHERE site_id = ${siteId}`
    : sql`exports WHERE site_id = ${siteId} AND key_id = ${keyId} AND schedule_id IS NULL AND due_at IS NOT NULL`
  const { rows } = await sql<{ total: number }>`SELECT count(*)::int AS total FROM ${counted}`.execute(transaction)
  const { schedulesPerSiteMax, waitingPerKeyMax } = exportLimits
  if ((rows[0]?.total ?? 0) < (scheduled ? schedulesPerSiteMax : waitingPerKeyMax)) return
  throw conflict(
    scheduled
      ? `Site has ${schedulesPerSiteMax} schedules of exports, and may not have more`
      : `The key has ${waitingPerKeyMax} exports of this site that have not ended: wait, or delete some`,
  )
}
