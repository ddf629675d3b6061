import type { BatchEntry } from '@sluice/contracts/stats-batch'

/** Why a request failed, in words for the user. */
export class ApiError extends Error {
  /** HTTP status; 0 when no answer came. */
  readonly status: number
  /** The answer's X-Request-Id. */
  readonly requestId: string | undefined
  /** How long to wait before the next try, from Retry-After. */
  readonly retryAfterMs: number | undefined
  /** `data` of the failed answer, if any: per-event errors of a batch. */
  readonly data: unknown
  /** Whether the first sending of the same change is still under way, so that this one was not carried out. */
  readonly isUnderWay: boolean
  /** When the failed query is refetched by itself, Unix ms of this machine; undefined: what shows the error decides. */
  retryAt: number | undefined

  constructor(
    status: number,
    message: string,
    details: {
      requestId?: string | undefined
      retryAfterMs?: number | undefined
      data?: unknown
      isUnderWay?: boolean
    } = {},
  ) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.requestId = details.requestId
    this.retryAfterMs = details.retryAfterMs
    this.data = details.data
    this.isUnderWay = details.isUnderWay ?? false
  }
}

/** Whether a failure passes by itself: a lost connection, too many requests, a service that is not available. */
export const isPassing = ({ status }: ApiError): boolean => [0, 429, 503].includes(status)

/** Any thrown value as an ApiError. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(0, error instanceof Error ? error.message : String(error))
}

/** The error of one query of a batch, as if it had been sent alone. */
export const failureOf = ({ status, error }: Extract<BatchEntry, { success: false }>): ApiError =>
  new ApiError(status, error)
