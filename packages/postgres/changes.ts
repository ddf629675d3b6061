import { sql } from 'kysely'
import type { ChangeCursor } from '@sluice/access/change-cursor'
import type { Db } from './tables.ts'

/**
 * The cursor of the next poll: the lowest transaction that has not ended. Read it before the rows. All lower
 * transactions have ended, so the rows show their changes, no matter how long they took. The next poll reads the
 * changes of all other transactions again.
 */
export async function readChangeCursor(db: Db): Promise<ChangeCursor> {
  const { cursor } = await db
    .selectNoFrom(sql<ChangeCursor>`pg_snapshot_xmin(pg_current_snapshot())::text`.as('cursor'))
    .executeTakeFirstOrThrow()
  return cursor
}

/**
 * The condition on rows that were changed (for `created_xid`: created) by the transaction `cursor` or a later one. A
 * row with a transaction number that this server has not used yet comes from a backup of another server, and does not
 * count.
 */
export function isChangedSince(cursor: ChangeCursor, column: 'changed_xid' | 'created_xid' = 'changed_xid') {
  const xid = sql.ref(column)
  return sql<boolean>`${xid} >= ${cursor}::xid8 AND ${xid} < pg_snapshot_xmax(pg_current_snapshot())`
}
