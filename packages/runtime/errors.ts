/**
 * Kinds of failures, named by what a caller may do about them. packages/api/error-status.ts alone decides the HTTP
 * status of each kind.
 */
export type ErrorCode =
  | 'missing_field'
  | 'invalid_field'
  | 'invalid_format'
  | 'query_too_large'
  | 'unauthenticated'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'gone'
  | 'precondition_failed'
  | 'too_large'
  | 'unsupported_media_type'
  | 'range_not_satisfiable'
  | 'rate_limited'
  | 'unavailable'
  | 'internal'

export interface AppErrorOptions {
  /** The text that a client reads in `error`. Never holds internals, keys or values of other clients. */
  message: string
  /** The field that the message names, a dotted path. */
  field?: string
  /** The text that an operator reads in the log; defaults to the public message. */
  internal?: string
  /** True when the same call may succeed later without a change. */
  retryable?: boolean
  /** True when the same call fails until an operator changes something, e.g. the rights of an engine's user. */
  needsOperator?: boolean
  /** Seconds until a retry makes sense; becomes the header `Retry-After`. */
  retryAfterSeconds?: number
  /** `data` of the failure's body, e.g. a batch's errors by event. */
  data?: unknown
  cause?: unknown
}

/**
 * The error class of Sluice. A service answers any other error as a bare `internal` error and logs it with its cause.
 */
export class AppError extends Error {
  override readonly name: string = 'AppError'
  readonly code: ErrorCode
  readonly field: string | undefined
  readonly internal: string
  readonly retryable: boolean
  readonly needsOperator: boolean
  readonly retryAfterSeconds: number | undefined
  readonly data: unknown

  constructor(code: ErrorCode, options: AppErrorOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.field = options.field
    this.internal = options.internal ?? options.message
    this.retryable = options.retryable ?? false
    this.needsOperator = options.needsOperator ?? false
    this.retryAfterSeconds = options.retryAfterSeconds
    this.data = options.data
  }
}

/** True for a failure after which the same call may succeed later without a change. */
export function isRetryable(error: unknown): error is AppError {
  return error instanceof AppError && error.retryable
}

/**
 * The `code` of a failure of the system (`ECONNREFUSED`), of Node or of Postgres (`57P03`); undefined for all others,
 * AppError included. The function does not ask for `instanceof Error`: Node's own errors may come from another realm.
 */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error) || error instanceof AppError) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** 400 `Missing required field: <field>`; `field` is a dotted path. */
export function missingField(field: string): AppError {
  return new AppError('missing_field', { message: `Missing required field: ${field}`, field })
}

/** 400 `Invalid field: <field> <reason>`. */
export function invalidField(field: string, reason: string): AppError {
  return new AppError('invalid_field', { message: `Invalid field: ${field} ${reason}`, field })
}

/** 400 `Invalid format: <reason>`: JSON, multipart or CSV that can't be read. */
export function invalidFormat(reason: string): AppError {
  return new AppError('invalid_format', { message: `Invalid format: ${reason}` })
}

/** 401: one message for every unusable credential, so that nothing is learned by guessing. */
export function invalidApiKey(): AppError {
  return new AppError('unauthenticated', { message: 'Invalid API key' })
}

/** 401 for a sign-in code that is used, expired or guessed: the three can't be told apart. */
export function invalidSignInCode(): AppError {
  return new AppError('unauthenticated', {
    message:
      'This sign-in code is not valid: each works once, within 10 minutes. Sign in with an API key, or start Sluice again for a new link.',
  })
}

/** 403: the credential is valid but lacks the scope and the alternative scope. */
export function insufficientScope(scope: string, alternativeScope?: string): AppError {
  const required = alternativeScope === undefined ? scope : `${scope} or ${alternativeScope}`
  return new AppError('forbidden', { message: `Insufficient scope: requires ${required}` })
}

/** 403: a write names a site that the key is not bound to. Reads answer 404, as for a site that does not exist. */
export function siteNotAllowed(): AppError {
  return new AppError('forbidden', { message: 'Key is not allowed for this site' })
}

/** 403: a page of another origin than those of the key sends events. */
export function originNotAllowed(): AppError {
  return new AppError('forbidden', { message: 'Key is not allowed for this origin' })
}

/** 403: imports, with a key that everybody can read in a page, as this field of it says. */
export function browserKeyNotAllowed(field: 'allowed_origins' | 'events_per_minute_per_address'): AppError {
  return new AppError('forbidden', {
    message: `A key with ${field} cannot be used for imports: use a key without it`,
  })
}

/** 409 with a plain sentence: not now, or not any more. */
export function conflict(message: string): AppError {
  return new AppError('conflict', { message })
}

/** 404 `<what> not found`, or a bare `Not found` for a route. */
export function notFound(what?: string): AppError {
  return new AppError('not_found', { message: what === undefined ? 'Not found' : `${what} not found` })
}

/** Returns `found`, the record that a request names. Throws 404 `<what> not found` when it is undefined. */
export function requireFound<T>(found: T | undefined, what: string): T {
  if (found === undefined) throw notFound(what)
  return found
}

/** 413 with a plain sentence that names the limit. */
export function tooLarge(message: string): AppError {
  return new AppError('too_large', { message })
}

/** 415 with a plain sentence that names the accepted types. */
export function unsupportedMediaType(message: string): AppError {
  return new AppError('unsupported_media_type', { message })
}

/** 429 with `Retry-After`: a limit of the credential is exceeded. */
export function rateLimited(retryAfterSeconds: number): AppError {
  return new AppError('rate_limited', {
    message: `Rate limit exceeded. Retry after ${retryAfterSeconds} seconds.`,
    retryable: true,
    retryAfterSeconds,
  })
}

/** 503: an engine is unavailable or overloaded; always retryable, always with `Retry-After`. */
export function unavailable(internal: string, cause?: unknown, retryAfterSeconds = 1): AppError {
  return new AppError('unavailable', {
    message: 'Service temporarily unavailable',
    internal,
    retryable: true,
    retryAfterSeconds,
    cause,
  })
}

/** 500 that lasts until an operator changes something: `internal`, which operators alone read, says what. */
export function internalError(internal: string, cause?: unknown): AppError {
  return new AppError('internal', { message: 'Internal server error', internal, needsOperator: true, cause })
}

/** The text of a failure for operators: the internal text of an AppError, the message of another error; never empty. */
export function internalMessage(error: unknown): string {
  if (error instanceof AppError) return error.internal
  if (!(error instanceof Error)) return String(error)
  if (error.message !== '') return error.message
  // When a name has several addresses and none of them accepts a connection, Node leaves the message of its error empty.
  const attempts = error instanceof AggregateError ? [...new Set(error.errors.map(internalMessage))] : []
  return attempts.join(', ') || (errorCode(error) ?? error.name)
}

/**
 * What a failure and its causes are, without their texts, which may quote values of users: e.g. `internal: 427`, where
 * 427 is the code of ClickHouse's error.
 */
export function failureKind(error: unknown): string {
  if (!(error instanceof Error)) return errorCode(error) ?? 'unknown'
  const kind = error instanceof AppError ? error.code : (errorCode(error) ?? error.name)
  return error.cause === undefined ? kind : `${kind}: ${failureKind(error.cause)}`
}

/** The text of a failure for users: the message of an AppError; that of another error may hold internals. */
export function publicMessage(error: unknown): string {
  return error instanceof AppError ? error.message : 'Internal server error'
}
