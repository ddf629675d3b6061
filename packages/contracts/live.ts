import joi from 'joi'
import { eventLimits } from './event-fields.ts'
import type { Environment } from './scopes.ts'
import { environmentParameter, parameterMessages } from './stats.ts'
import { text } from './validate.ts'

export const liveLimits = {
  /** Minutes that are counted one by one. */
  minutes: 30,
  /** Minutes that visitors and events are counted over. */
  recentMinutes: 5,
  lastEventsMax: 50,
  /** Hours that the last events may be old. */
  lastEventsHours: 24,
} as const

/** A read of one site and of nothing else. */
export interface SiteQuery {
  site_id: string
  environment?: Environment | 'all'
}

export const siteQuery = joi
  .object<SiteQuery>({
    site_id: text(eventLimits.siteIdLengthMax).required().example('my-site'),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

const propertyValue = joi.alternatives(joi.string().allow(''), joi.number().unsafe(), joi.boolean(), joi.array())

/** An event as it was stored; absent fields are left out. */
const storedEvent = joi
  .object({
    event_id: joi.string().required(),
    event_type: joi.string().required(),
    timestamp: joi.number().integer().required(),
    received_at: joi.number().integer().required(),
    environment: joi.string().required(),
    session_id: joi.string(),
    user_id: joi.string(),
    anonymous_id: joi.string(),
    url: joi.string(),
    referrer: joi.string(),
    country: joi.string(),
    device_type: joi.string(),
    properties: joi
      .object()
      .pattern(joi.string(), propertyValue)
      .description('Flattened; values of the types that they were sent with.'),
  })
  .id('StoredEvent')

const count = joi.number().integer().required()

/** `data` of GET /api/v1/live. Times are those of the events, and end now. */
export const liveResult = joi.object({
  visitors_5m: count.description('Distinct visitors of the last five minutes.'),
  events_5m: count.description('Events of the last five minutes.'),
  per_minute: joi
    .array()
    .items(joi.number().integer())
    .length(liveLimits.minutes)
    .required()
    .description('Events of the last 30 minutes, a minute each; the last one ends now.'),
  last_events: joi
    .array()
    .items(storedEvent)
    .max(liveLimits.lastEventsMax)
    .required()
    .description('Of the last 24 hours, newest first.'),
})
