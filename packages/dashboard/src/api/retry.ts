import { hashKey, type QueryFunctionContext } from '@tanstack/preact-query'
import { asApiError, isPassing } from './error.ts'

/** Wait before the next try when the answer has no `Retry-After`. */
const firstWaitMs = 5_000
const waitMsMin = 1_000
/** No wait grows beyond this by itself. */
const grownMsMax = 30_000
/** No `Retry-After` makes a longer wait. */
const retryAfterMsMax = 3_600_000

/** How long to wait after a failure: its `Retry-After`, and twice as long after each further failure in a row. */
export function waitMs(retryAfterMs: number | undefined, failuresInARow: number): number {
  const first = Math.min(retryAfterMsMax, Math.max(waitMsMin, retryAfterMs ?? firstWaitMs))
  return Math.max(first, Math.min(grownMsMax, first * 2 ** (failuresInARow - 1)))
}

/** How often each query has failed since its last success, or since the user retried. */
const failures = new WeakMap<object, number>()

/** Makes the next wait as short as after a first failure: called when the user retries without waiting. */
export function forgetFailures(query: object | undefined): void {
  if (query !== undefined) failures.delete(query)
}

type Interval = number | false

/** What is refetched now and then is not refetched sooner after a failure, but is not in error for minutes either. */
const leastMs = (normalMs: Interval): number => Math.min(normalMs || 0, grownMsMax)

/**
 * Returns TanStack's `queryFn` for `fetchData`. The error that it throws has in `retryAt` when the query is refetched:
 * after failures that pass by themselves, and always if the query is refetched each `refetchMs` anyway.
 */
export function queryFnWithRetryAt<T>(
  fetchData: (signal: AbortSignal) => Promise<T>,
  refetchMs: (data: T | undefined) => Interval,
) {
  return async ({ client, queryKey, signal }: QueryFunctionContext): Promise<T> => {
    const query = client.getQueryCache().get<T>(hashKey(queryKey))
    try {
      const data = await fetchData(signal)
      forgetFailures(query)
      return data
    } catch (failure) {
      if (signal.aborted || query === undefined) throw failure
      const error = asApiError(failure)
      const inARow = (failures.get(query) ?? 0) + 1
      failures.set(query, inARow)
      const normalMs = refetchMs(query.state.data)
      if (normalMs !== false || isPassing(error)) {
        error.retryAt = Date.now() + Math.max(leastMs(normalMs), waitMs(error.retryAfterMs, inARow))
      }
      throw error
    }
  }
}

/** The part of a cached query that is used here. */
interface CachedQuery {
  state: { error: Error | null; errorUpdatedAt: number }
}

const retryAtOf = ({ state: { error } }: CachedQuery) => (error === null ? undefined : asApiError(error).retryAt)

/** The time until a query is refetched: the normal interval, or the rest of the wait after a failure. */
export function intervalOf(query: CachedQuery, normalMs: Interval): Interval {
  const retryAt = retryAtOf(query)
  // The interval stays the same until the next failure, because TanStack restarts its timer when the interval changes.
  return retryAt === undefined ? normalMs : Math.max(leastMs(normalMs), retryAt - query.state.errorUpdatedAt)
}

/** Whether the next try after a failure is due, which was not made because the page was hidden. */
export function isTryDue(query: CachedQuery): boolean {
  const retryAt = retryAtOf(query)
  return retryAt !== undefined && retryAt <= Date.now()
}
