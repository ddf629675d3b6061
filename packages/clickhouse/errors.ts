import { SluiceError } from '@sluice/contracts/errors'

/** ClickHouse's error codes that decide what a caller does next. */
export const clickHouseCode = {
  unknownDatabase: 81,
  queryWithSameIdIsAlreadyRunning: 216,
  queryWasCancelled: 394,
} as const

/**
 * Codes of a server that can't now but may later: time-outs, overload, memory, too many parts, shutting down,
 * read-only replicas, Keeper. Everything else (bad data, bad SQL, missing tables) fails the same way again.
 */
const retryableCodes = new Set<number>([
  clickHouseCode.queryWithSameIdIsAlreadyRunning,
  clickHouseCode.queryWasCancelled,
  159, // TIMEOUT_EXCEEDED
  164, // READONLY
  202, // TOO_MANY_SIMULTANEOUS_QUERIES
  203, // NO_FREE_CONNECTION
  209, // SOCKET_TIMEOUT
  210, // NETWORK_ERROR
  241, // MEMORY_LIMIT_EXCEEDED
  242, // TABLE_IS_READ_ONLY
  243, // NOT_ENOUGH_SPACE
  252, // TOO_MANY_PARTS
  285, // TOO_FEW_LIVE_REPLICAS
  286, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
  319, // UNKNOWN_STATUS_OF_INSERT
  425, // SYSTEM_ERROR
  473, // DEADLOCK_AVOIDED
  999, // KEEPER_EXCEPTION
])

/**
 * Codes that may mean a row that can't be read, as tried with broken rows. They may mean a wrong table as well:
 * `findBadRows` tells.
 */
const dataCodes = new Set<number>([
  6, // CANNOT_PARSE_TEXT
  25, // CANNOT_PARSE_ESCAPE_SEQUENCE: half of a surrogate pair
  26, // CANNOT_PARSE_QUOTED_STRING: an empty object
  27, // CANNOT_PARSE_INPUT_ASSERTION_FAILED: no JSON, text for a number
  33, // CANNOT_READ_ALL_DATA
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

/** Codes of a statement that was too much for the server as it is now; a smaller one may pass. */
const sizeCodes = new Set<number>([
  158, // TOO_MANY_ROWS
  159, // TIMEOUT_EXCEEDED
  173, // CANNOT_ALLOCATE_MEMORY
  191, // SET_SIZE_LIMIT_EXCEEDED
  241, // MEMORY_LIMIT_EXCEEDED
  307, // TOO_MANY_BYTES
  396, // TOO_MANY_ROWS_OR_BYTES
])

/** A statement that ClickHouse refused, with the code it gave. */
export class ClickHouseError extends SluiceError {
  /** ClickHouse's own error code, or undefined when no answer came (connection refused, cut, timed out). */
  readonly code: number | undefined
  /** The rows may be to blame. */
  readonly isOfData: boolean
  /** Fewer rows may do. */
  readonly isOfSize: boolean

  constructor(code: number | undefined, internal: string, cause?: unknown) {
    const retryable = code === undefined || retryableCodes.has(code)
    super(retryable ? 503 : 500, {
      message: retryable ? 'Service temporarily unavailable' : 'Internal server error',
      internal: `ClickHouse: ${internal}`,
      retryable,
      ...(retryable ? { retryAfterSeconds: 1 } : {}),
      cause,
    })
    this.code = code
    this.isOfData = code !== undefined && dataCodes.has(code)
    this.isOfSize = code !== undefined && sizeCodes.has(code)
  }
}
