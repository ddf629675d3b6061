import { settledOrAfter } from '@sluice/runtime/deadline'
import { unavailable } from '@sluice/runtime/errors'

/** A call for several ids on behalf of a key. */
type Call<Result> = (key: string, ids: readonly string[]) => Promise<Result>

export interface CoalesceOptions {
  /** The most ids that wait for the next call. */
  idsMax: number
  /** Why more ids are refused, for operators. */
  full: string
  /** A call that has run for so many ms does not hold up the next one; by default, each call does until its end. */
  overlapAfterMs?: number
}

/**
 * Runs one call per key at a time, or more with `overlapAfterMs`. The ids of calls that arrive meanwhile are combined
 * in the next call, whose result all of them get. Rejects with AppError `unavailable` when too many ids would wait for
 * the next call.
 */
export function coalesceByKey<Result>(
  call: Call<Result>,
  { idsMax, full, overlapAfterMs }: CoalesceOptions,
): Call<Result> {
  interface PendingCall {
    ids: Set<string>
    result: Promise<Result>
  }
  /** Resolves when the last call of a key no longer holds up the next one, whatever its outcome. */
  const ends = new Map<string, Promise<void>>()
  const pendingCalls = new Map<string, PendingCall>()

  function enqueue(key: string): PendingCall {
    const ids = new Set<string>()
    const free = Promise.withResolvers<unknown>()
    const result = (ends.get(key) ?? Promise.resolve()).then(() => {
      pendingCalls.delete(key)
      const running = call(key, [...ids])
      free.resolve(overlapAfterMs === undefined ? settled(running) : settledOrAfter(running, overlapAfterMs))
      return running
    })
    const end = free.promise.then(() => {
      if (ends.get(key) === end) ends.delete(key)
    })
    ends.set(key, end)
    const pending = { ids, result }
    pendingCalls.set(key, pending)
    return pending
  }

  return (key, ids) => {
    const pending = pendingCalls.get(key) ?? enqueue(key)
    if (pending.ids.size + ids.length > idsMax) return Promise.reject(unavailable(full))
    for (const id of ids) pending.ids.add(id)
    return pending.result
  }
}

function settled(call: Promise<unknown>): Promise<unknown> {
  return call.catch(() => undefined)
}
