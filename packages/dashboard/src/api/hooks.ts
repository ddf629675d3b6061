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
import { asking, forgetFailures, intervalOf, isTryDue } from './retry.ts'
import type { Data, Input, OperationId } from './wire.ts'

/** The cache of all answers. When failed queries are asked again is decided in `retry.ts`; `ErrorPanel` says it. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      staleTime: 30_000,
      // A page that nobody saw asks again when it is seen.
      refetchOnWindowFocus: (query) => (isTryDue(query) ? 'always' : false),
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always' },
  },
})

export interface AnswerOptions<T> {
  /** Asks again after this many ms while the page is visible; a function decides by the last answer. `false`: never. */
  refetchMs?: number | false | ((data: T | undefined) => number | false)
  /** Asks again while the page is hidden, too, and at once when it is shown again. */
  isHiddenToo?: boolean
  /** Age in ms up to which an answer is taken from the cache; default: 30,000. */
  staleMs?: number
  /** Whether the answer to the query before stays until the new one is there; default: true. */
  keep?: boolean
}

/** An answer, or where it stands. */
export interface ApiState<T> {
  /** The answer; that of the query before while `isOld`. */
  data: T | undefined
  error: ApiError | undefined
  /** When the last answer came, Unix ms of this machine; 0 before the first. */
  answeredAt: number
  /** No answer to show yet. */
  isLoading: boolean
  /** A request is under way. */
  isFetching: boolean
  /** `data` belongs to the query before: to be shown muted. */
  isOld: boolean
  retry: () => void
}

/** Where the answer to a query stands, from what the cache says about it. */
function useAnswerState<T>(result: UseQueryResult<T>, key: QueryKey, isAsked: boolean): ApiState<T> {
  const query = queryClient.getQueryCache().get(hashKey(key))
  // The cache forgets the failure of a query without an answer at the next try; it holds until there is one.
  const failed = useRef<{ query: typeof query; error: ApiError }>()
  const isAnswered = result.data !== undefined && !result.isPlaceholderData
  if (result.error !== null) failed.current = { query, error: asApiError(result.error) }
  else if (isAnswered || failed.current?.query !== query) failed.current = undefined
  const error = failed.current?.error
  const isOld = result.isPlaceholderData && error === undefined
  return {
    data: isAnswered || isOld ? result.data : undefined,
    error,
    answeredAt: result.dataUpdatedAt,
    isLoading: result.isPending && result.fetchStatus !== 'idle' && error === undefined,
    isFetching: result.isFetching,
    isOld,
    retry: () => {
      if (!isAsked) return
      forgetFailures(query)
      void result.refetch()
    },
  }
}

/** Asks something and keeps its answer; `key` names the query. `null` as key asks nothing, and has no answer. */
export function useAnswer<T>(
  key: readonly unknown[] | null,
  ask: (signal: AbortSignal) => Promise<T>,
  { refetchMs = false, isHiddenToo = false, staleMs, keep = true }: AnswerOptions<T> = {},
): ApiState<T> {
  const queryKey = key ?? ['nothing']
  const normalMs = typeof refetchMs === 'function' ? refetchMs : () => refetchMs
  const result = useQuery<T>({
    queryKey,
    queryFn: asking(ask, normalMs),
    enabled: key !== null,
    refetchInterval: (query) => intervalOf(query, normalMs(query.state.data)),
    refetchIntervalInBackground: isHiddenToo,
    ...(isHiddenToo
      ? { refetchOnWindowFocus: (query) => (query.state.error === null || isTryDue(query) ? 'always' : false) }
      : {}),
    ...(staleMs === undefined ? {} : { staleTime: staleMs }),
    // To no query there is no answer, not even an older one.
    ...(keep && key !== null ? { placeholderData: keepPreviousData } : {}),
  })
  return useAnswerState(result, queryKey, key !== null)
}

/**
 * Asks an operation and keeps its answer. The input is part of the cache's key: another input is another query,
 * and what nobody waits for is aborted. `null` as input asks nothing, and has no answer.
 */
export function useApi<Id extends OperationId>(
  id: Id,
  input: Input<Id> | null,
  options?: AnswerOptions<Data<Id>>,
): ApiState<Data<Id>> {
  return useAnswer(
    input === null ? null : [id, input],
    // TanStack keeps no undefined, which operations without data return.
    async (signal) => (input === null ? null : ((await call(id, input, signal)) ?? null)) as Data<Id>,
    options,
  )
}

/**
 * Asks an operation before a component does, which then takes the answer from the cache. Resolves when the answer is
 * there or has failed: the component that asks shows the failure.
 */
export async function prefetch<Id extends OperationId>(id: Id, input: Input<Id>): Promise<void> {
  await queryClient
    .query({
      queryKey: [id, input],
      queryFn: asking(
        (signal) => call(id, input, signal),
        () => false,
      ),
    })
    .catch(() => undefined)
}

/**
 * Whether an answer is the query's and has come since the component was mounted: one from the cache lacks what others
 * have created meanwhile.
 */
export function useIsCurrent({ answeredAt, isOld }: Pick<ApiState<unknown>, 'answeredAt' | 'isOld'>): boolean {
  const [mountedAt] = useState(() => Date.now())
  return !isOld && answeredAt >= mountedAt
}

/**
 * Returns what `derive` makes of an answer and its query; undefined before the first answer. While the page still
 * shows the answer of the previous query (`isOld`), the former result stays: a new one would combine the numbers of
 * that answer with the new query.
 */
export function useFromAnswer<T, Derived>(
  { data, isOld }: { data: T | undefined; isOld: boolean },
  derive: (data: T) => Derived,
): Derived | undefined {
  const derived = useRef<Derived>()
  if (data === undefined) return undefined
  if (!isOld) derived.current = derive(data)
  return derived.current
}

export interface Change<Id extends OperationId> {
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
 * Changes something by an operation. `refreshes` names the queries whose answers are asked anew afterwards. A page
 * that shows a new secret refreshes its list itself, when the secret's dialog is closed (`useRefresh`). The same change
 * that is sent again after a failure is made once, where the operation takes an `Idempotency-Key`: the answer to the
 * first request may have been lost.
 */
export function useChange<Id extends OperationId>(id: Id, refreshes: readonly OperationId[] = []): Change<Id> {
  const refresh = useRefresh()
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
    onSuccess: () => refresh(...refreshes),
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

/** Returns a function that asks the named queries anew. */
export function useRefresh(): (...ids: OperationId[]) => Promise<void> {
  const client = useQueryClient()
  return async (...ids) => {
    await Promise.all(ids.map((id) => client.invalidateQueries({ queryKey: [id] })))
  }
}
