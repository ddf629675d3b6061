import {
  keepPreviousData,
  QueryClient,
  useMutation,
  useQuery,
  useQueryClient,
  type UseQueryResult,
} from '@tanstack/preact-query'
import { call } from './client.ts'
import type { ApiError } from './error.ts'
import { asApiError } from './error.ts'
import type { Data, Input, OperationId } from './wire.ts'

/** The cache of all answers. Failed questions are asked again by `ErrorPanel`, which says when. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 30_000, refetchOnWindowFocus: false, networkMode: 'always' },
    mutations: { retry: false, networkMode: 'always' },
  },
})

export interface ApiOptions<Id extends OperationId> {
  /** Asks again after this many ms while the page is visible; a function decides by the last answer. `false`: never. */
  refetchMs?: number | false | ((data: Data<Id> | undefined) => number | false)
  /** Asks again while the page is hidden, too. */
  isHiddenToo?: boolean
  /** Age in ms up to which an answer is taken from the cache; default: 30,000. */
  staleMs?: number
  /** Whether the answer to the question before stays until the new one is there; default: true. */
  keep?: boolean
}

/** An answer, or where it stands. */
export interface ApiState<T> {
  /** The answer; that of the question before while `isOld`. */
  data: T | undefined
  error: ApiError | undefined
  /** When the last answer came, Unix ms of this machine; 0 before the first. */
  answeredAt: number
  /** No answer to show yet. */
  isLoading: boolean
  /** A request is under way. */
  isFetching: boolean
  /** `data` belongs to the question before: to be shown muted. */
  isOld: boolean
  retry: () => void
}

const stateOf = <T>(result: UseQueryResult<T>, isAsked: boolean): ApiState<T> => ({
  data: result.data,
  error: result.error === null ? undefined : asApiError(result.error),
  answeredAt: result.dataUpdatedAt,
  isLoading: result.isPending && result.fetchStatus !== 'idle',
  isFetching: result.isFetching,
  isOld: result.isPlaceholderData,
  retry: () => {
    if (isAsked) void result.refetch()
  },
})

/**
 * Asks an operation and keeps its answer. The question is part of the cache's key: another input is another question,
 * and what nobody waits for is aborted. `null` as input asks nothing, and has no answer.
 */
export function useApi<Id extends OperationId>(
  id: Id,
  input: Input<Id> | null,
  { refetchMs = false, isHiddenToo = false, staleMs, keep = true }: ApiOptions<Id> = {},
): ApiState<Data<Id>> {
  return stateOf(
    useQuery<Data<Id>>({
      queryKey: [id, input],
      // TanStack keeps no undefined, which operations without data return.
      queryFn: async ({ signal }) => (input === null ? null : ((await call(id, input, signal)) ?? null)) as Data<Id>,
      enabled: input !== null,
      refetchInterval: typeof refetchMs === 'function' ? (query) => refetchMs(query.state.data) : refetchMs,
      refetchIntervalInBackground: isHiddenToo,
      ...(staleMs === undefined ? {} : { staleTime: staleMs }),
      // To no question there is no answer, not even an older one.
      ...(keep && input !== null ? { placeholderData: keepPreviousData } : {}),
    }),
    input !== null,
  )
}

/**
 * Asks an operation before a component does, which then takes the answer from the cache. Resolves when the answer is
 * there or has failed: the component that asks shows the failure.
 */
export async function prefetch<Id extends OperationId>(id: Id, input: Input<Id>): Promise<void> {
  await queryClient
    .query({ queryKey: [id, input], queryFn: ({ signal }) => call(id, input, signal) })
    .catch(() => undefined)
}

/** Asks something that is made of several calls; `key` names the question. `null` as key asks nothing yet. */
export function useAnswer<T>(
  key: readonly unknown[] | null,
  ask: (signal: AbortSignal) => Promise<T>,
  { refetchMs = false, staleMs, keep = true }: { refetchMs?: number | false; staleMs?: number; keep?: boolean } = {},
): ApiState<T> {
  return stateOf(
    useQuery<T>({
      queryKey: key ?? ['nothing'],
      queryFn: ({ signal }) => ask(signal),
      enabled: key !== null,
      refetchInterval: refetchMs,
      ...(staleMs === undefined ? {} : { staleTime: staleMs }),
      ...(keep && key !== null ? { placeholderData: keepPreviousData } : {}),
    }),
    key !== null,
  )
}

export interface Change<Id extends OperationId> {
  /** Sends the change; resolves with its `data`, throws an `ApiError`, which `error` holds too. */
  run: (input: Input<Id>) => Promise<Data<Id>>
  isBusy: boolean
  error: ApiError | undefined
  /** Forgets the error. */
  reset: () => void
}

/**
 * Changes something by an operation. `refreshes` names the questions whose answers are asked anew afterwards. A page
 * that shows a new secret refreshes its list itself, when the secret's dialog is closed (`useRefresh`).
 */
export function useChange<Id extends OperationId>(id: Id, refreshes: readonly OperationId[] = []): Change<Id> {
  const refresh = useRefresh()
  const { mutateAsync, isPending, error, reset } = useMutation<Data<Id>, Error, Input<Id>>({
    mutationFn: (input) => call(id, input),
    onSuccess: () => refresh(...refreshes),
  })
  return {
    run: mutateAsync,
    isBusy: isPending,
    error: error === null ? undefined : asApiError(error),
    reset,
  }
}

/** Returns a function that asks the named questions anew. */
export function useRefresh(): (...ids: OperationId[]) => Promise<void> {
  const client = useQueryClient()
  return async (...ids) => {
    await Promise.all(ids.map((id) => client.invalidateQueries({ queryKey: [id] })))
  }
}
