import { AppError, type ErrorCode } from '@sluice/runtime/errors'
import type { Headers } from './headers.ts'

/** An error whose response has headers of its own. */
export class HttpError extends AppError {
  readonly headers: Headers

  constructor(code: ErrorCode, message: string, headers: Headers) {
    super(code, { message })
    this.headers = headers
  }
}

/** 405: the path has other methods, which the header `Allow` names. */
export function methodNotAllowed(methods: readonly string[]): HttpError {
  const allow = methods.join(', ')
  return new HttpError('method_not_allowed', `Method not allowed. Use ${allow}`, { Allow: allow })
}

/** 416: the file of `size` bytes ends before the range begins; the header `Content-Range` names the size. */
export function rangeNotSatisfiable(size: number): HttpError {
  const message = `Range is not within the ${size} bytes of the file`
  return new HttpError('range_not_satisfiable', message, { 'Content-Range': `bytes */${size}` })
}
