import { AppError } from '@sluice/runtime/errors'

/** ClickHouse's error codes that callers handle. */
export const clickHouseCode = {
  attemptToReadAfterEof: 32,
  cannotReadAllData: 33,
  unknownDatabase: 81,
  tooManyRows: 158,
  timeoutExceeded: 159,
  queryWithSameIdIsAlreadyRunning: 216,
  memoryLimitExceeded: 241,
  queryWasCancelled: 394,
  throwIf: 395,
  /** Too many rows or bytes of a result. */
  tooManyRowsOrBytes: 396,
  /** A pattern that ClickHouse's RE2 refuses. */
  cannotCompileRegexp: 427,
} as const

/**
 * Codes of failures that pass: time-outs, overload, memory, too many parts, a shutdown, read-only replicas, Keeper. A
 * statement that fails with another code (bad data, bad SQL, missing tables) fails the same way again.
 */
const retryableCodes = new Set<number>([
  clickHouseCode.queryWithSameIdIsAlreadyRunning,
  clickHouseCode.queryWasCancelled,
  clickHouseCode.timeoutExceeded,
  164, // READONLY
  201, // QUOTA_EXCEEDED: until the quota's next interval
  202, // TOO_MANY_SIMULTANEOUS_QUERIES
  203, // NO_FREE_CONNECTION
  209, // SOCKET_TIMEOUT
  210, // NETWORK_ERROR
  236, // ABORTED: the server is ending
  clickHouseCode.memoryLimitExceeded,
  242, // TABLE_IS_READ_ONLY
  243, // NOT_ENOUGH_SPACE
  252, // TOO_MANY_PARTS
  279, // ALL_CONNECTION_TRIES_FAILED: another server of the cluster is unavailable
  285, // TOO_FEW_LIVE_REPLICAS
  286, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
  319, // UNKNOWN_STATUS_OF_INSERT
  425, // SYSTEM_ERROR
  439, // CANNOT_SCHEDULE_TASK: no free thread
  473, // DEADLOCK_AVOIDED
  499, // S3_ERROR
  692, // TOO_MANY_MUTATIONS
  745, // SERVER_OVERLOADED
  999, // KEEPER_EXCEPTION
])

/**
 * Codes of rows that can't be read, as found with broken rows. They may also mean a wrong table: `findBadRows`
 * distinguishes the two.
 */
const dataCodes = new Set<number>([
  6, // CANNOT_PARSE_TEXT
  25, // CANNOT_PARSE_ESCAPE_SEQUENCE: half of a surrogate pair
  26, // CANNOT_PARSE_QUOTED_STRING: an empty object
  27, // CANNOT_PARSE_INPUT_ASSERTION_FAILED: no JSON, text for a number
  clickHouseCode.cannotReadAllData,
  41, // CANNOT_PARSE_DATETIME
  53, // TYPE_MISMATCH
  69, // ARGUMENT_OUT_OF_BOUND
  70, // CANNOT_CONVERT_TYPE
  72, // CANNOT_PARSE_NUMBER
  117, // INCORRECT_DATA: an unknown field, a field twice
  130, // CANNOT_READ_ARRAY_FROM_TEXT
  131, // TOO_LARGE_STRING_SIZE
  306, // TOO_DEEP_RECURSION
  321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
  349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
  467, // CANNOT_PARSE_BOOL
  691, // UNKNOWN_ELEMENT_OF_ENUM
])

/** Codes of a statement that was too large for the server at that time; a smaller one may succeed. */
const sizeCodes = new Set<number>([
  clickHouseCode.tooManyRows,
  clickHouseCode.timeoutExceeded,
  173, // CANNOT_ALLOCATE_MEMORY
  191, // SET_SIZE_LIMIT_EXCEEDED
  clickHouseCode.memoryLimitExceeded,
  307, // TOO_MANY_BYTES
  clickHouseCode.tooManyRowsOrBytes,
])

/**
 * Codes of statements that ClickHouse refuses until an operator has changed its users, their rights or its databases.
 */
const operatorCodes = new Set<number>([
  clickHouseCode.unknownDatabase,
  192, // UNKNOWN_USER
  193, // WRONG_PASSWORD
  194, // REQUIRED_PASSWORD
  195, // IP_ADDRESS_NOT_ALLOWED
  497, // ACCESS_DENIED
  516, // AUTHENTICATION_FAILED
])

/** Whether another server of the cluster ended in the middle of the statement: its packets then end too early. */
function isLostShard(serverCode: number, text: string): boolean {
  return serverCode === clickHouseCode.attemptToReadAfterEof && text.includes('while receiving packet from')
}

/** A statement that failed in ClickHouse, or whose result did not arrive. */
export class ClickHouseError extends AppError {
  /** ClickHouse's own error code, or undefined when no answer came (connection refused, cut, timed out). */
  readonly serverCode: number | undefined
  /** Whether rows that can't be read may be the cause. */
  readonly isBadData: boolean
  /** Whether a statement with fewer rows may succeed. */
  readonly isTooLarge: boolean

  /**
   * `server` is named where it is one of several, and its operator has to know which; `needsOperator` says that only an
   * operator can end a failure whose code does not tell. `mayHaveBadRows` says that the statement was sent with rows of
   * others: only then are they what can't be read in full. Otherwise it is a part of a table, which the text names with
   * "while reading", or a result that ClickHouse could not spool whole to its full disk.
   */
  constructor(
    serverCode: number | undefined,
    internal: string,
    {
      cause,
      server,
      needsOperator = false,
      mayHaveBadRows = false,
    }: { cause?: unknown; server?: string | undefined; needsOperator?: boolean; mayHaveBadRows?: boolean } = {},
  ) {
    const retryable =
      serverCode === undefined ||
      retryableCodes.has(serverCode) ||
      isLostShard(serverCode, internal) ||
      (serverCode === clickHouseCode.cannotReadAllData && !mayHaveBadRows && !internal.includes('while reading'))
    super(retryable ? 'unavailable' : 'internal', {
      message: retryable ? 'Service temporarily unavailable' : 'Internal server error',
      internal: `${server === undefined ? 'ClickHouse' : `ClickHouse at ${server}`}: ${internal}`,
      retryable,
      needsOperator: needsOperator || (serverCode !== undefined && operatorCodes.has(serverCode)),
      ...(retryable ? { retryAfterSeconds: 1 } : {}),
      cause,
    })
    this.serverCode = serverCode
    this.isBadData = !retryable && dataCodes.has(serverCode)
    this.isTooLarge = serverCode !== undefined && sizeCodes.has(serverCode)
  }
}

/**
 * The limit that a statement exceeds: groups by time, rows or bytes of the result, or what ClickHouse may read and
 * hold.
 */
export type ExceededLimit = 'buckets' | 'rows' | 'bytes' | 'resources'

/**
 * A request for more than one analysis may read or return, whenever it is made. The message names no field: callers
 * that know the fields of a request add them.
 */
export class QueryTooLargeError extends AppError {
  readonly limit: ExceededLimit

  constructor(limit: ExceededLimit, options: { message?: string; internal?: string; cause?: unknown } = {}) {
    super('query_too_large', { message: 'The result of the query is too large', ...options })
    this.limit = limit
  }
}

/**
 * Whether a statement exceeds a limit by itself, whenever it is asked. The memory limit of the whole server is exceeded
 * by the load, and is no fault of the statement.
 */
export function exceedsLimit(error: unknown): boolean {
  if (error instanceof QueryTooLargeError) return true
  if (!(error instanceof ClickHouseError)) return false
  const { serverCode } = error
  return (
    serverCode === clickHouseCode.tooManyRows ||
    (serverCode === clickHouseCode.memoryLimitExceeded && !isServerOutOfMemory(error))
  )
}

/**
 * Whether the memory of the whole server, or of its user, is used up: the same statement succeeds when others have
 * ended.
 */
export function isServerOutOfMemory({ serverCode, internal }: ClickHouseError): boolean {
  return serverCode === clickHouseCode.memoryLimitExceeded && !/query memory limit/i.test(internal)
}
