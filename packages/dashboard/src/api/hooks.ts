import {
  hashKey,
  keepPreviousData,
  QueryClient,
  type QueryKey,
  useMutation,
  useQuery,
  useQueryClient,
  type UseQueryResult,
} from '@tanstack/preact-query'
import { useRef, useState } from 'preact/hooks'
import { call } from './client.ts'
import type { ApiError } from './error.ts'
import { asApiError } from './error.ts'
import { forgetFailures, intervalOf, isTryDue, queryFnWithRetryAt } from './retry.ts'
import type { Data, Input, OperationId } from './wire.ts'

/** The cache of all queries. When failed queries are fetched again is decided in `retry.ts`; `ErrorPanel` shows it. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      staleTime: 30_000,
      // A failed query whose next try became due while the page was hidden is fetched again when the page is shown.
      refetchOnWindowFocus: (query) => (isTryDue(query) ? 'always' : false),
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always' },
  },
})

export interface CachedQueryOptions<T> {
  /** Refetches after this many ms while the page is visible; a function decides by the last data. `false`: never. */
  refetchMs?: number | false | ((data: T | undefined) => number | false)
  /** Refetches while the page is hidden too, and at once when it is shown again; default: false. */
  refetchInBackground?: boolean
  /** Age in ms up to which data is taken from the cache without a request; default: 30,000. */
  staleMs?: number
  /** Whether the data of the previous query stays until that of the new one has arrived; default: true. */
  keepsPreviousData?: boolean
}

/** The result of a query, or the state of its request. */
export interface ApiState<T> {
  /** The data of the query; that of the previous query while `isPlaceholderData`. */
  data: T | undefined
  error: ApiError | undefined
  /** When the last answer arrived, Unix ms of this machine; 0 before the first. */
  answeredAt: number
  /** There is no data to show yet. */
  isLoading: boolean
  /** A request is under way. */
  isFetching: boolean
  /** `data` belongs to the previous query: it is shown muted. */
  isPlaceholderData: boolean
  retry: () => void
}

/** The state of a query, from TanStack's result and from what the cache holds of the query. */
function useQueryState<T>(result: UseQueryResult<T>, key: QueryKey, isEnabled: boolean): ApiState<T> {
  const query = queryClient.getQueryCache().get(hashKey(key))
  // The cache forgets the failure of a query without an answer at the next try; it holds until there is one.
  const failed = useRef<{ query: typeof query; error: ApiError }>()
  const isAnswered = result.data !== undefined && !result.isPlaceholderData
  if (result.error !== null) failed.current = { query, error: asApiError(result.error) }
  else if (isAnswered || failed.current?.query !== query) failed.current = undefined
  const error = failed.current?.error
  const isPlaceholderData = result.isPlaceholderData && error === undefined
  return {
    data: isAnswered || isPlaceholderData ? result.data : undefined,
    error,
    answeredAt: result.dataUpdatedAt,
    isLoading: result.isPending && result.fetchStatus !== 'idle' && error === undefined,
    isFetching: result.isFetching,
    isPlaceholderData,
    retry: () => {
      if (!isEnabled) return
      forgetFailures(query)
      void result.refetch()
    },
  }
}

/**
 * Runs a query and caches its result. `key` identifies the query in the cache. With `null`, no request is sent and
 * `data` is undefined.
 */
export function useCachedQuery<T>(
  key: readonly unknown[] | null,
  fetchData: (signal: AbortSignal) => Promise<T>,
  { refetchMs = false, refetchInBackground = false, staleMs, keepsPreviousData = true }: CachedQueryOptions<T> = {},
): ApiState<T> {
  const queryKey = key ?? ['nothing']
  const normalMs = typeof refetchMs === 'function' ? refetchMs : () => refetchMs
  const result = useQuery<T>({
    queryKey,
    queryFn: queryFnWithRetryAt(fetchData, normalMs),
    enabled: key !== null,
    refetchInterval: (query) => intervalOf(query, normalMs(query.state.data)),
    refetchIntervalInBackground: refetchInBackground,
    ...(refetchInBackground
      ? { refetchOnWindowFocus: (query) => (query.state.error === null || isTryDue(query) ? 'always' : false) }
      : {}),
    ...(staleMs === undefined ? {} : { staleTime: staleMs }),
    // Without a query, the previous result must not be shown.
    ...(keepsPreviousData && key !== null ? { placeholderData: keepPreviousData } : {}),
  })
  return useQueryState(result, queryKey, key !== null)
}

/**
 * Queries an operation and caches its result. The input is part of the cache's key: another input is another query,
 * and a request that no component waits for is aborted. With `null` as input, no request is sent and `data` is
 * undefined.
 */
export function useApi<Id extends OperationId>(
  id: Id,
  input: Input<Id> | null,
  options?: CachedQueryOptions<Data<Id>>,
): ApiState<Data<Id>> {
  return useCachedQuery(
    input === null ? null : [id, input],
    // TanStack keeps no undefined, which operations without data return.
    async (signal) => (input === null ? null : ((await call(id, input, signal)) ?? null)) as Data<Id>,
    options,
  )
}

/**
 * Queries an operation before a component does, which then takes the result from the cache. Resolves when the request
 * has succeeded or failed: the component shows the failure.
 */
export async function prefetch<Id extends OperationId>(id: Id, input: Input<Id>): Promise<void> {
  await queryClient
    .query({
      queryKey: [id, input],
      queryFn: queryFnWithRetryAt(
        (signal) => call(id, input, signal),
        () => false,
      ),
    })
    .catch(() => undefined)
}

/**
 * Whether the data is the query's own and has arrived since the component was mounted: data from the cache lacks what
 * others have created meanwhile.
 */
export function useIsCurrent({
  answeredAt,
  isPlaceholderData,
}: Pick<ApiState<unknown>, 'answeredAt' | 'isPlaceholderData'>): boolean {
  const [mountedAt] = useState(() => Date.now())
  return !isPlaceholderData && answeredAt >= mountedAt
}

/**
 * Returns what `derive` makes of an answer and its query; undefined before the first answer. While the page still
 * shows the answer of the previous query (`isPlaceholderData`), the former result stays: a new one would combine the
 * numbers of that answer with the new query.
 */
export function useFromAnswer<T, Derived>(
  { data, isPlaceholderData }: Pick<ApiState<T>, 'data' | 'isPlaceholderData'>,
  derive: (data: T) => Derived,
): Derived | undefined {
  const derived = useRef<Derived>()
  if (data === undefined) return undefined
  if (!isPlaceholderData) derived.current = derive(data)
  return derived.current
}

/** A change that an operation makes, and the state of its request. */
export interface OperationMutation<Id extends OperationId> {
  /** Sends the change; resolves with its `data`, throws an `ApiError`, which `error` holds too. */
  run: (input: Input<Id>) => Promise<Data<Id>>
  /** Sends the change and passes its `data` on; a failure is left to `error`. */
  start: (input: Input<Id>, onDone?: (data: Data<Id>) => void) => void
  /** Sends what was started last once more: the same, whatever the page holds by now. */
  startAgain: () => void
  isBusy: boolean
  error: ApiError | undefined
  /** Forgets the error. */
  reset: () => void
}

/** A key that no other request has; `crypto.randomUUID` is missing without https. */
const newIdempotencyKey = (): string => crypto.getRandomValues(new Uint32Array(4)).join('-')

/**
 * Sends a change by an operation. After a success, the cached results of the operations in `refreshes` are invalidated
 * and refetched. A page that shows a new secret invalidates its list itself, when the secret's dialog is closed
 * (`useInvalidate`). The same change that is sent again after a failure is made once, where the operation takes an
 * `Idempotency-Key`: the answer to the first request may have been lost.
 */
export function useOperationMutation<Id extends OperationId>(
  id: Id,
  refreshes: readonly OperationId[] = [],
): OperationMutation<Id> {
  const invalidate = useInvalidate()
  /** The last change, unless it has succeeded. */
  const unanswered = useRef<{ input: string; key: string }>()
  const started = useRef<() => void>()
  const { mutateAsync, isPending, error, reset } = useMutation<Data<Id>, Error, Input<Id>>({
    mutationFn: async (input) => {
      const text = JSON.stringify(input)
      const sent = unanswered.current?.input === text ? unanswered.current : { input: text, key: newIdempotencyKey() }
      unanswered.current = sent
      const data = await call(id, input, undefined, sent.key)
      if (unanswered.current === sent) unanswered.current = undefined
      return data
    },
    onSuccess: () => invalidate(...refreshes),
  })
  return {
    run: mutateAsync,
    start: (input, onDone) => {
      started.current = () => {
        mutateAsync(input).then(onDone, () => undefined)
      }
      started.current()
    },
    startAgain: () => started.current?.(),
    isBusy: isPending,
    error: error === null ? undefined : asApiError(error),
    reset,
  }
}

/** Returns a function that invalidates the cached results of operations; those on the page are refetched. */
export function useInvalidate(): (...ids: OperationId[]) => Promise<void> {
  const client = useQueryClient()
  return async (...ids) => {
    await Promise.all(ids.map((id) => client.invalidateQueries({ queryKey: [id] })))
  }
}
