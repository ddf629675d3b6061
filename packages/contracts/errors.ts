/** HTTP statuses of failures: contract section 1, "Status and message". */
export type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 429 | 500 | 503

export interface SluiceErrorOptions {
  /** What a client reads in `error`. Never holds internals, keys or values of other clients. */
  message: string
  /** What an operator reads in the log; defaults to the public message. */
  internal?: string
  /** True when the same call may succeed later without a change. */
  retryable?: boolean
  /** Seconds until a retry makes sense; becomes the header `Retry-After`. */
  retryAfterSeconds?: number
  /** Further response headers, e.g. `Allow`. */
  headers?: Readonly<Record<string, string>>
  /** `data` of the failure's body, e.g. a batch's errors by event. */
  data?: unknown
  cause?: unknown
}

/** The one error class: whatever else reaches the edge of a service is answered as a bare 500 and logged with its cause. */
export class SluiceError extends Error {
  override readonly name = 'SluiceError'
  readonly status: ErrorStatus
  readonly internal: string
  readonly retryable: boolean
  readonly retryAfterSeconds: number | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly data: unknown

  constructor(status: ErrorStatus, options: SluiceErrorOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause })
    this.status = status
    this.internal = options.internal ?? options.message
    this.retryable = options.retryable ?? false
    this.retryAfterSeconds = options.retryAfterSeconds
    this.headers = options.headers ?? {}
    this.data = options.data
  }
}

/**
 * The `code` of a failure of the system (`ECONNREFUSED`), of Node or of Postgres (`57P03`); undefined for all others.
 * It does not ask for `instanceof Error`: Node's own errors may come from another realm.
 */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** 400 `Missing required field: <field>`; `field` is a dotted path. */
export function missingField(field: string): SluiceError {
  return new SluiceError(400, { message: `Missing required field: ${field}` })
}

/** 400 `Invalid field: <field> <reason>`. */
export function invalidField(field: string, reason: string): SluiceError {
  return new SluiceError(400, { message: `Invalid field: ${field} ${reason}` })
}

/** 400 `Invalid format: <reason>`: JSON, multipart or CSV that can't be read. */
export function invalidFormat(reason: string): SluiceError {
  return new SluiceError(400, { message: `Invalid format: ${reason}` })
}

/** 401: one message for every unusable credential, so that nothing is learned by guessing. */
export function invalidApiKey(): SluiceError {
  return new SluiceError(401, { message: 'Invalid API key' })
}

/** 403: the credential is good but lacks the scope, and the other one that would do as well. */
export function insufficientScope(scope: string, orScope?: string): SluiceError {
  const required = orScope === undefined ? scope : `${scope} or ${orScope}`
  return new SluiceError(403, { message: `Insufficient scope: requires ${required}` })
}

/** 403: a write names a site that the key is not bound to. Reads answer 404, as for a site that does not exist. */
export function siteNotAllowed(): SluiceError {
  return new SluiceError(403, { message: 'Key is not allowed for this site' })
}

/** 409 with a plain sentence: not now, or not any more. */
export function conflict(message: string): SluiceError {
  return new SluiceError(409, { message })
}

/** 404 `<what> not found`, or a bare `Not found` for a route. */
export function notFound(what?: string): SluiceError {
  return new SluiceError(404, { message: what === undefined ? 'Not found' : `${what} not found` })
}

/** 413 with a plain sentence that names the limit. */
export function tooLarge(message: string): SluiceError {
  return new SluiceError(413, { message })
}

/** 415 with a plain sentence that names what is taken. */
export function unsupportedMediaType(message: string): SluiceError {
  return new SluiceError(415, { message })
}

/** 429 with `Retry-After`: a limit of the credential is passed. */
export function rateLimited(retryAfterSeconds: number): SluiceError {
  return new SluiceError(429, {
    message: `Rate limit exceeded. Retry after ${retryAfterSeconds} seconds.`,
    retryable: true,
    retryAfterSeconds,
  })
}

/** 503: an engine can't take it now; always retryable, always with `Retry-After`. */
export function unavailable(internal: string, cause?: unknown, retryAfterSeconds = 1): SluiceError {
  return new SluiceError(503, {
    message: 'Service temporarily unavailable',
    internal,
    retryable: true,
    retryAfterSeconds,
    cause,
  })
}

/** What an operator reads of a failure: the internal text of ours, the message of others. */
export function operatorText(error: unknown): string {
  if (error instanceof SluiceError) return error.internal
  return error instanceof Error ? error.message : String(error)
}
