import joi from 'joi'
import { liveLimits, type LiveQuery, type LiveResult, type SiteQuery } from '@sluice/contracts/live'
import { completeUntilSchema } from './complete-until.ts'
import { filterParameter } from './conditions.ts'
import { environmentParameter, parameterMessages } from './parameters.ts'
import { siteId } from './sites.ts'
import { storedEvent } from './stored-event.ts'

export const siteQuery = joi
  .object<SiteQuery>({
    site_id: siteId.required(),
    environment: environmentParameter,
  })
  .messages(parameterMessages)

/** The parameters of GET /api/v1/live. */
export const liveQuery = siteQuery.append<LiveQuery>({
  filter: filterParameter.description(
    'Returns only events that meet all of these conditions: a JSON list of `{property, operator, value}`, as in cohorts.',
  ),
})

const count = joi.number().integer().required()

/** `data` of GET /api/v1/live. Events are counted by their timestamps, in ranges that end now. */
export const liveResult = joi.object<LiveResult>({
  visitors_5m: count.description('Number of distinct visitors in the last five minutes.'),
  events_5m: count.description('Number of events in the last five minutes.'),
  per_minute: joi
    .array()
    .items(joi.number().integer())
    .length(liveLimits.minutes)
    .required()
    .description('Number of events in each of the last 30 minutes, oldest first. The last minute ends now.'),
  last_events: joi
    .array()
    .items(storedEvent)
    .max(liveLimits.lastEventsMax)
    .required()
    .description('Events of the last 24 hours, newest first.'),
  complete_until: completeUntilSchema,
})
