import joi from 'joi'

/** Requests, or events, per minute that a key may make (contract section 2, "Limits"). */
export interface RateLimits {
  events_per_minute?: number
  queries_per_minute?: number
  admin_per_minute?: number
}

/** Seconds that a limit's count lasts, from the first request that it counts. */
export const limitWindowSeconds = 60

/** The limit of a key that has none of its own. */
export const defaultLimits = {
  events: 10_000,
  queries: 1_000,
  admin: 100,
} as const

/** The highest limit that a key can have; bootstrap keys have it (contract section 10). */
export const limitMax = 10_000_000

/** Failed log-ins that one address may make in a minute. */
export const failedSessionsPerMinute = 10

const perMinute = joi
  .number()
  .integer()
  .min(1)
  .max(limitMax)
  .messages({ 'number.base': 'must be a number', 'number.integer': 'must be an integer' })

export const rateLimits = joi
  .object<RateLimits>({ events_per_minute: perMinute, queries_per_minute: perMinute, admin_per_minute: perMinute })
  .allow(null)
