import { unavailable } from '@sluice/runtime/errors'

/** A call for several ids on behalf of a key. */
type Call<Result> = (key: string, ids: readonly string[]) => Promise<Result>

/**
 * Runs one call per key at a time. The ids of calls that arrive meanwhile are combined in the next call, whose result
 * all of them get. Rejects with the 503 of the reason `full` when more than `idsMax` ids would wait for the next call.
 */
export function coalesceByKey<Result>(
  call: Call<Result>,
  { idsMax, full }: { idsMax: number; full: string },
): Call<Result> {
  interface PendingCall {
    ids: Set<string>
    result: Promise<Result>
  }
  /** Resolves when the last call of a key has settled, whatever its outcome. */
  const ends = new Map<string, Promise<void>>()
  const pendingCalls = new Map<string, PendingCall>()

  function enqueue(key: string): PendingCall {
    const ids = new Set<string>()
    const result = (ends.get(key) ?? Promise.resolve()).then(() => {
      pendingCalls.delete(key)
      return call(key, [...ids])
    })
    const end = result
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
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
