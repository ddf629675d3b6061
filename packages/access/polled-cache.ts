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
   * Each cached row is read again after this many ms, even if no poll reports a change: a row may have been changed by
   * hand or restored.
   */
  recheckAfterMs: number
  /**
   * Returns the rows that have changed since the poll that returned `cursor`, and the ids of rows that were deleted
   * since; no rows if `cursor` is undefined.
   */
  readChanges: (cursor: ChangeCursor | undefined) => Promise<{
    changed: Iterable<readonly [id: string, value: Value]>
    deleted?: Iterable<string>
    cursor: ChangeCursor
  }>
  /** Returns the rows that exist among these ids. */
  readRows: (ids: readonly string[]) => Promise<ReadonlyMap<string, Value>>
}

/** A bounded cache of rows of Postgres by id. Polls keep the cached rows up to date. */
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

/** Rows that one statement reads again, which takes this process some milliseconds. */
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
  /** The values are in objects, so that a row can be read again without becoming the most recently used one. */
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

  /** Replaces a row that is still cached; undefined if the row is gone. */
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
        // The row may have changed after the look-up read it. The cache misses that change if the poll that returned it
        // ended before the row was cached. No poll returns changes from before the first poll.
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
      // If a deleted row was created again, it is looked up when it is needed.
      for (const id of changes.deleted ?? []) rows.delete(id)
      cursor = changes.cursor
      pollCount++
      // A poll that fails here is repeated: the rows are still due.
      await recheck()
    },
  }
}
