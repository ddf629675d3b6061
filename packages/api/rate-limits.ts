import joi from 'joi'
import { limitMax, type RateLimits } from '@sluice/contracts/rate-limits'
import { nestedObject } from '@sluice/runtime/schemas'

const perMinute = joi
  .number()
  .integer()
  .min(1)
  .max(limitMax)
  .messages({ 'number.base': 'must be a number', 'number.integer': 'must be an integer' })

/** Schema of a key's own rate limits, per minute. Null: the defaults apply. */
export const rateLimits = nestedObject(
  joi.object<RateLimits>({
    events_per_minute: perMinute,
    events_per_minute_per_address: perMinute,
    queries_per_minute: perMinute,
    admin_per_minute: perMinute,
  }),
).allow(null)
