import { errorCode } from '@sluice/contracts/errors'
import type { RedisLogger } from './ports.ts'

/** A Redis that is slow by turns goes and comes many times a second. */
const repeatMsMin = 10_000
const consequence = 'limits hold per process, sessions and idempotent requests are refused'

/** The log's lines on a Redis server: one when it goes and one when it comes back, in ten seconds; the rest at debug. */
export interface RedisLines {
  isAway(): boolean
  /** Does nothing when it is known. */
  away(reason: string): void
  /** Does nothing unless it was away. */
  back(): void
  /** It answers, with an error: what is wrong is no matter of time but rights, memory, a command that was renamed. */
  refused(reason: string): void
}

/** `server` is `host:port`. */
export function redisLines(server: string, logger: RedisLogger): RedisLines {
  const toldAt = { away: -Infinity, refusal: -Infinity }
  /** In ms; undefined while it is there. */
  let awaySince: number | undefined
  let isAwayTold = false

  const isDue = (what: keyof typeof toldAt): boolean => {
    const now = performance.now()
    if (now - toldAt[what] < repeatMsMin) return false
    toldAt[what] = now
    return true
  }

  return {
    isAway: () => awaySince !== undefined,
    away(reason) {
      if (awaySince !== undefined) return
      awaySince = performance.now()
      isAwayTold = isDue('away')
      logger[isAwayTold ? 'warn' : 'debug']({ redis: server, error: reason }, `Redis is away: ${consequence}`)
    },
    back() {
      if (awaySince === undefined) return
      const awayMs = Math.round(performance.now() - awaySince)
      awaySince = undefined
      logger[isAwayTold ? 'info' : 'debug']({ redis: server, away_ms: awayMs }, 'Redis answers again')
    },
    refused(reason) {
      if (isDue('refusal')) logger.warn({ redis: server, error: reason }, `Redis refuses calls: ${consequence}`)
    },
  }
}

/**
 * For the log and `internal`. Redis's own texts quote what was sent here and there, and ioredis's errors hold the
 * command. Doesn't ask for `instanceof Error`: Node's own errors may come from another realm.
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
  // Of several addresses that were tried there is no text in common.
  return text === '' ? code : text
}
