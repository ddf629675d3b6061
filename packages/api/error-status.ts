import type { ErrorCode } from '@sluice/runtime/errors'

/** Statuses of failures (docs/http-interface.md). */
export type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 410 | 412 | 413 | 415 | 416 | 429 | 500 | 503

/** The HTTP status of each kind of failure. */
export const statusOf: Readonly<Record<ErrorCode, ErrorStatus>> = {
  missing_field: 400,
  invalid_field: 400,
  invalid_format: 400,
  query_too_large: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  gone: 410,
  precondition_failed: 412,
  too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  rate_limited: 429,
  unavailable: 503,
  internal: 500,
}
