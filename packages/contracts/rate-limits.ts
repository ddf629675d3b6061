/**
 * Limit classes of routes: the key's three limits that requests count against (docs/http-interface.md#rate-limits).
 */
export const limitClasses = ['events', 'queries', 'admin'] as const

export type LimitClass = (typeof limitClasses)[number]

/** Requests, or events, per minute that a key may make (docs/http-interface.md#rate-limits). */
export interface RateLimits {
  events_per_minute?: number
  /** Limit of one client address under the key, for keys in web pages, which everybody can read. */
  events_per_minute_per_address?: number
  queries_per_minute?: number
  admin_per_minute?: number
}

/** Seconds from the first counted request until a limit's count starts again. */
export const limitWindowSeconds = 60

/** The limits of a key without its own. */
export const defaultLimits = {
  events: 10_000,
  queries: 1_000,
  admin: 100,
} as const

/** The highest limit that a key can have; bootstrap keys have it (docs/http-interface.md#rate-limits). */
export const limitMax = 10_000_000

/** Failed log-ins that one address may make in a minute. */
export const failedSessionsPerMinute = 10
