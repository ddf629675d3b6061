import { attempt } from './attempt.ts'
import { makeId } from './make-id.ts'
import type { Context } from './types.ts'

/** The stored data of a visitor, as JSON under one name. */
interface StoredVisit extends Context {
  /** Unix ms of the session's first and last event, by the device's clock. */
  began?: number
  last?: number
  /** Ms that Sluice's clock is ahead of the device's. */
  skew?: number
}

/** A session ends after this time without an event, and at the latest after a day. */
const idleMs = 30 * 60_000
const sessionMs = 24 * 3_600_000

export interface Visitor {
  read: () => StoredVisit
  change: (fields: StoredVisit) => void
  /**
   * The ids at `now` (Unix ms by the device's clock), of a new session if there is none or it has ended. `isEvent`:
   * whether they are for an event, which continues the session.
   */
  ids: (now: number, isEvent?: boolean) => Context
  /** Removes the ids. */
  forget: () => void
}

/**
 * The ids of a visitor; tabs with the same storage share them. `isLasting`: whether the visitor gets an anonymous id,
 * which lasts longer than the session.
 */
export function openVisitor(storage: Storage | undefined, name: string, isLasting: boolean): Visitor {
  /** The data that is not stored, because there is no storage or it is full: it replaces what the storage has. */
  let unstored = ''
  const read = (): StoredVisit =>
    attempt(() => JSON.parse(unstored || (storage?.getItem(name) ?? '')) as StoredVisit) ?? {}
  const change = (fields: StoredVisit): void => {
    unstored = JSON.stringify({ ...read(), ...fields })
    attempt(() => {
      if (!storage) return
      storage.setItem(name, unstored)
      unstored = ''
    })
  }
  return {
    read,
    change,
    ids: (now, isEvent) => {
      const { session_id, began = 0, last = 0, anonymous_id = isLasting ? makeId(now) : undefined, user_id } = read()
      const isOver = !session_id || now - last > idleMs || now - began > sessionMs
      const ids = { session_id: isOver ? makeId(now) : session_id, anonymous_id, user_id }
      if (isOver || isEvent) change({ ...ids, last: now, began: isOver ? now : began })
      return ids
    },
    forget: () => {
      const { skew } = read()
      unstored = ''
      attempt(() => storage?.removeItem(name))
      if (skew) change({ skew })
    },
  }
}
