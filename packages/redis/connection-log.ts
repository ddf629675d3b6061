import { errorCode } from '@sluice/runtime/errors'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { RedisLogger } from './port.ts'

/** An overloaded Redis may become unavailable and available again many times a second. */
const logIntervalMs = 10_000
const consequence = 'enforcing limits per process, refusing sessions and idempotent requests'

/**
 * The log lines about a Redis server. Within ten seconds, at most one line says that Redis became unavailable, and one
 * that it is available again. Further ones are logged at debug.
 */
export interface ConnectionLog {
  isDown(): boolean
  /** Logs that Redis is unavailable. Does nothing when it was already unavailable. */
  logDown(reason: string): void
  /** Logs that Redis is available again. Does nothing unless it was unavailable. */
  logUp(): void
  /**
   * Logs that Redis replied with an error. Such a failure does not end by itself: the user lacks rights, Redis lacks
   * memory, or a command was renamed.
   */
  logErrorReply(reason: string): void
}

/** `server` is `host:port`. */
export function createConnectionLog(server: string, logger: RedisLogger): ConnectionLog {
  const isLogDue = logThrottle(logIntervalMs)
  /** `performance.now()` of the moment at which Redis became unavailable; undefined while it is available. */
  let downSince: number | undefined
  let isDownLogged = false

  return {
    isDown: () => downSince !== undefined,
    logDown(reason) {
      if (downSince !== undefined) return
      downSince = performance.now()
      isDownLogged = isLogDue('down')
      logger[isDownLogged ? 'warn' : 'debug']({ redis: server, error: reason }, `Redis unavailable: ${consequence}`)
    },
    logUp() {
      if (downSince === undefined) return
      const awayMs = Math.round(performance.now() - downSince)
      downSince = undefined
      logger[isDownLogged ? 'info' : 'debug']({ redis: server, away_ms: awayMs }, 'Redis recovered')
    },
    logErrorReply(reason) {
      if (isLogDue('error reply')) {
        logger.warn({ redis: server, error: reason }, `Redis returned an error: ${consequence}`)
      }
    },
  }
}

/**
 * The text of a failure for the log and for `internal`. It contains no keys and values: some texts of Redis quote the
 * command, and errors of ioredis contain it. The function does not use `instanceof Error`, because Node's own errors
 * may come from another realm.
 */
export function describeRedisError(error: unknown): string {
  const code = errorCode(error) ?? 'unknown'
  if (typeof error !== 'object' || error === null || !('message' in error) || typeof error.message !== 'string') {
    return code
  }
  const text = error.message
    .replace(/,? with args beginning with.*$/s, '')
    .replace(/'[^']*'/g, '…')
    .slice(0, 200)
  // An error of attempts at several addresses has an empty text.
  return text === '' ? code : text
}
