import { LRUCache } from 'lru-cache'
import type { ChangeCursor } from './change-cursor.ts'

export interface PolledCacheOptions<Value> {
  /** The most rows that are cached; the least recently used one gives way. */
  max: number
  /** The most ids that are known to have no row. */
  unknownMax: number
  /** Milliseconds for which an id without a row is not looked up again, unless a poll finds a row. */
  unknownTtlMs: number
  /**
   * Each cached row is read again after this many ms, whatever the polls say: a row may have been changed by hand or
   * restored.
   */
  recheckAfterMs: number
  /**
   * Returns the rows that have changed since the poll that returned `cursor`, and the ids of rows that were deleted
   * since; none for undefined.
   */
  readChanges: (cursor: ChangeCursor | undefined) => Promise<{
    changed: Iterable<readonly [id: string, value: Value]>
    deleted?: Iterable<string>
    cursor: ChangeCursor
  }>
  /** Returns those of the rows that exist. */
  readRows: (ids: readonly string[]) => Promise<ReadonlyMap<string, Value>>
}

/** Rows of Postgres by id, bounded, which follow the changes of the rows by polls. */
export interface PolledCache<Value> {
  /** Undefined for a row that is not cached. */
  get(id: string): Value | undefined
  /** True for an id that was looked up a short time ago and has no row. */
  isUnknown(id: string): boolean
  /**
   * To be called before rows are looked up; the returned function caches the row that was found, undefined for none.
   */
  beginLookup(): (id: string, value: Value | undefined) => void
  /** Brings the cached rows up to date. */
  poll(): Promise<void>
}

/** Rows that one statement reads again: some milliseconds of work for this process. */
const rowsPerRecheck = 500

/** An empty cache. It reads nothing before the first `poll` or lookup. */
export function polledCache<Value>({
  max,
  unknownMax,
  unknownTtlMs,
  recheckAfterMs,
  readChanges,
  readRows,
}: PolledCacheOptions<Value>): PolledCache<Value> {
  /** In objects of their own, so that a row that is read again stays as recently used as it was. */
  const rows = new LRUCache<string, { value: Value }>({
    max,
    dispose: (_value, id, reason) => {
      if (reason !== 'set') forget(id)
    },
  })
  const unknownIds = new LRUCache<string, true>({ max: unknownMax, ttl: unknownTtlMs })
  /** When each row was read, in ms of `performance.now()`; the row that was read first comes first. */
  const readAt = new Map<string, number>()
  /** Rows that may have changed since they were read, without any poll reporting it. */
  const suspects = new Set<string>()
  let cursor: ChangeCursor | undefined
  let pollCount = 0

  function forget(id: string): void {
    readAt.delete(id)
    suspects.delete(id)
  }

  function noteRead(id: string): void {
    forget(id)
    readAt.set(id, performance.now())
  }

  /** Replaces a row that is still cached; undefined: it is gone. */
  function refresh(id: string, value: Value | undefined): void {
    const row = rows.peek(id)
    if (row === undefined) return
    if (value === undefined) {
      rows.delete(id)
      return
    }
    row.value = value
    noteRead(id)
  }

  function* dueRows(): Iterable<string> {
    yield* suspects
    const dueBefore = performance.now() - recheckAfterMs
    for (const [id, at] of readAt) {
      if (at > dueBefore) return
      if (!suspects.has(id)) yield id
    }
  }

  async function recheck(): Promise<void> {
    const due = [...dueRows()]
    for (let from = 0; from < due.length; from += rowsPerRecheck) {
      const ids = due.slice(from, from + rowsPerRecheck)
      const found = await readRows(ids)
      for (const id of ids) refresh(id, found.get(id))
    }
  }

  return {
    get: (id) => rows.get(id)?.value,
    isUnknown: (id) => unknownIds.has(id),
    beginLookup: () => {
      const pollsBefore = pollCount
      return (id, value) => {
        // A change during the look-up is missed when the row was read before it and the poll that returned it ended
        // before the row was cached. What changed before the first poll is returned by none.
        const isOvertaken = pollCount !== pollsBefore
        if (value !== undefined) {
          rows.set(id, { value })
          noteRead(id)
          if (isOvertaken || cursor === undefined) suspects.add(id)
        } else {
          rows.delete(id)
          if (!isOvertaken) unknownIds.set(id, true)
        }
      }
    },
    poll: async () => {
      const changes = await readChanges(cursor)
      if (cursor === undefined) unknownIds.clear()
      for (const [id, value] of changes.changed) {
        unknownIds.delete(id)
        refresh(id, value)
      }
      // A row that was made anew is looked up when it is needed.
      for (const id of changes.deleted ?? []) rows.delete(id)
      cursor = changes.cursor
      pollCount++
      // A poll that fails here is repeated: the rows are still due.
      await recheck()
    },
  }
}
