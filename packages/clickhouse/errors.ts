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

/** A statement that ClickHouse refused, with the code it gave. */
export class ClickHouseError extends SluiceError {
  /** ClickHouse's own error code, or undefined when no answer came (connection refused, cut, timed out). */
  readonly code: number | undefined

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
  }
}
