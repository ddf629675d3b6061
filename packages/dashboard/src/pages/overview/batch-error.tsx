import { useMemo } from 'preact/hooks'
import type { StatsBatchResult } from '@sluice/contracts/stats-batch'
import { type ApiError, failureOf } from '../../api/error.ts'
import type { ApiState } from '../../api/hooks.ts'
import { ErrorPanel } from '../../ui/states.tsx'

/** The answers to several queries of statistics. */
export type Batch = ApiState<StatsBatchResult>

/** Why a batch has no answer, or why one of its queries has none. */
export function errorOf({ data, error }: Batch): ApiError | undefined {
  if (data === undefined) return error
  const failed = data.results.find(({ success }) => !success)
  return failed?.success === false ? failureOf(failed) : undefined
}

/** The failure of a batch, or of one of its queries; Retry fetches the whole batch again. */
export function BatchError({ batch }: { batch: Batch }) {
  // Each answer is one error: a new object starts the countdown of ErrorPanel again.
  const error = useMemo(() => errorOf(batch), [batch.data, batch.answeredAt, batch.error])
  return <ErrorPanel error={error} onRetry={batch.retry} />
}
