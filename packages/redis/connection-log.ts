import { errorCode } from '@sluice/runtime/errors'
import { logThrottle } from '@sluice/runtime/log-throttle'
import type { RedisLogger } from './port.ts'

/** An overloaded Redis becomes unavailable and available again many times a second. */
const logIntervalMs = 10_000
const consequence = 'enforcing limits per process, refusing sessions and idempotent requests'

/**
 * The log lines about a Redis server. Within ten seconds at most one line says that it became unavailable, and its
 * counterpart that it is back; further ones are written at debug.
 */
export interface ConnectionLog {
  isDown(): boolean
  /** Logs that Redis is unavailable; does nothing when it was unavailable already. */
  logDown(reason: string): void
  /** Logs that Redis is back; does nothing unless it was unavailable. */
  logUp(): void
  /**
   * Logs that Redis replied with an error. Waiting does not help then: rights or memory are missing, or a command was
   * renamed.
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
 * The text of a failure for the log and for `internal`, without keys and values: some texts of Redis quote the command
 * that was sent, and errors of ioredis hold it. The function does not ask for `instanceof Error`, because Node's own
 * errors may come from another realm.
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
  // The error of an attempt at several addresses has no text of its own.
  return text === '' ? code : text
}
