/**
 * The position at which the next poll for changes continues. The poll skips no change, however late its transaction is
 * committed. Only the store that returned a cursor can read it.
 */
export type ChangeCursor = string

/** The result of a poll. A row may be returned by several polls. */
export interface Changes<Row> {
  changed: readonly Row[]
  cursor: ChangeCursor
}
