import { hashKey, type QueryFunctionContext } from '@tanstack/preact-query'
import { asApiError, isPassing } from './error.ts'

/** Wait before the next try when the answer names none. */
const firstWaitMs = 5_000
const waitMsMin = 1_000
/** No wait grows beyond this by itself. */
const grownMsMax = 30_000
/** No answer can ask for a longer wait. */
const askedMsMax = 3_600_000

/** How long to wait after a failure: as long as its answer asks for, and twice as long after each one in a row. */
export function waitMs(retryAfterMs: number | undefined, failuresInARow: number): number {
  const first = Math.min(askedMsMax, Math.max(waitMsMin, retryAfterMs ?? firstWaitMs))
  return Math.max(first, Math.min(grownMsMax, first * 2 ** (failuresInARow - 1)))
}

/** How often each query has failed since its last answer, or since somebody asked again. */
const failures = new WeakMap<object, number>()

/** The next wait is as short as after the first failure: somebody asks again without waiting for it. */
export function forgetFailures(query: object | undefined): void {
  if (query !== undefined) failures.delete(query)
}

type Interval = number | false

/**
 * The function that asks a query. What it throws says in `retryAt` when the query is asked again: after failures
 * that pass by themselves, and always if it is asked each `refetchMs` anyway.
 */
export function asking<T>(ask: (signal: AbortSignal) => Promise<T>, refetchMs: (data: T | undefined) => Interval) {
  return async ({ client, queryKey, signal }: QueryFunctionContext): Promise<T> => {
    const query = client.getQueryCache().get<T>(hashKey(queryKey))
    try {
      const answer = await ask(signal)
      forgetFailures(query)
      return answer
    } catch (failure) {
      if (signal.aborted || query === undefined) throw failure
      const error = asApiError(failure)
      const inARow = (failures.get(query) ?? 0) + 1
      failures.set(query, inARow)
      const normalMs = refetchMs(query.state.data)
      if (normalMs !== false || isPassing(error)) {
        error.retryAt = Date.now() + Math.max(normalMs || 0, waitMs(error.retryAfterMs, inARow))
      }
      throw error
    }
  }
}

/** The part of a cached query that is used here. */
interface Asked {
  state: { error: Error | null; errorUpdatedAt: number }
}

const retryAtOf = ({ state: { error } }: Asked) => (error === null ? undefined : asApiError(error).retryAt)

/** The time until a query is asked again: the normal one, or what is left to the next try after a failure. */
export function intervalOf(query: Asked, normalMs: Interval): Interval {
  const retryAt = retryAtOf(query)
  // It stays the same until the next failure: another interval would start anew.
  return retryAt === undefined ? normalMs : Math.max(normalMs || 0, retryAt - query.state.errorUpdatedAt)
}

/** Whether the next try is due, which nobody made because the page was hidden. */
export function isTryDue(query: Asked): boolean {
  const retryAt = retryAtOf(query)
  return retryAt !== undefined && retryAt <= Date.now()
}
