import joi from 'joi'
import { eventsLimits, type EventsQuery, type EventsResult } from '@sluice/contracts/events'
import { filterParameter } from './conditions.ts'
import { decodeEventCursor } from './event-cursor.ts'
import { environmentParameter, integer, parameter, parameterMessages, rangeParameters } from './parameters.ts'
import { siteId } from './sites.ts'
import { storedEvent } from './stored-event.ts'

/** The parameters, in the order of docs/http-interface.md#events, in which the first problem is reported. */
export const eventsQuery = joi
  .object<EventsQuery>({
    site_id: siteId.required(),
    ...rangeParameters,
    environment: environmentParameter,
    filter: filterParameter.description(
      'Only events that meet all of these conditions, as cohorts have them: a JSON list of `{property, operator, value}`.',
    ),
    limit: integer(1, eventsLimits.limitMax).default(eventsLimits.limitDefault).description('Events of one page.'),
    before: parameter((value, helpers) => decodeEventCursor(value) ?? helpers.error('parameter.before'))
      .meta({ pattern: '^[A-Za-z0-9_-]+$' })
      .description('The next page: `next_before` of the page before, as it is.'),
  })
  .messages({
    ...parameterMessages,
    'parameter.before': 'must be the next_before of an answer',
  })

/** `data` of GET /api/v1/events. */
export const eventsResult = joi.object<EventsResult>({
  events: joi
    .array()
    .items(storedEvent)
    .max(eventsLimits.limitMax)
    .required()
    .description('Newest first by `timestamp`, then by `event_id` in descending order.'),
  next_before: joi
    .string()
    .allow(null)
    .required()
    .description('`before` of the next page; null on the last page: every other page holds exactly `limit` events.'),
})
