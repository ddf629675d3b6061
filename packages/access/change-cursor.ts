/**
 * Where the next poll for changes goes on. It skips no change, however late its transaction is committed. Only the store
 * that returned it understands it.
 */
export type ChangeCursor = string

/** The result of a poll. A row may be returned by several polls. */
export interface Changes<Row> {
  changed: readonly Row[]
  cursor: ChangeCursor
}
