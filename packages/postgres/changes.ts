import { sql } from 'kysely'
import type { ChangeCursor } from '@sluice/access/change-cursor'
import type { Db } from './tables.ts'

/**
 * The cursor of the next poll: the lowest transaction that was still under way. Read it before the rows: every lower
 * transaction has ended, so the rows show its changes, however long it took; every other one is read again.
 */
export async function readChangeCursor(db: Db): Promise<ChangeCursor> {
  const { cursor } = await db
    .selectNoFrom(sql<ChangeCursor>`pg_snapshot_xmin(pg_current_snapshot())::text`.as('cursor'))
    .executeTakeFirstOrThrow()
  return cursor
}

/**
 * The condition on rows that were changed (`created_xid`: made) by `cursor` or a later transaction. Transactions that
 * have not begun changed nothing: rows with such a number come from another server, restored from a backup.
 */
export function isChangedSince(cursor: ChangeCursor, column: 'changed_xid' | 'created_xid' = 'changed_xid') {
  const xid = sql.ref(column)
  return sql<boolean>`${xid} >= ${cursor}::xid8 AND ${xid} < pg_snapshot_xmax(pg_current_snapshot())`
}
