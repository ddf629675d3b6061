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
      'Returns only events that meet all of these conditions: a JSON list of `{property, operator, value}`, as in cohorts.',
    ),
    limit: integer(1, eventsLimits.limitMax)
      .default(eventsLimits.limitDefault)
      .description('Number of events of one page.'),
    before: parameter((value, helpers) => decodeEventCursor(value) ?? helpers.error('parameter.before'))
      .meta({ pattern: '^[A-Za-z0-9_-]+$' })
      .description('`next_before` of the previous page, unchanged: the answer is the next page.'),
  })
  .messages({
    ...parameterMessages,
    'parameter.before': 'must be the next_before value of an earlier response',
  })

/** `data` of GET /api/v1/events. */
export const eventsResult = joi.object<EventsResult>({
  events: joi
    .array()
    .items(storedEvent)
    .max(eventsLimits.limitMax)
    .required()
    .description('Sorted by `timestamp` in descending order, then by `event_id` in descending order.'),
  next_before: joi
    .string()
    .allow(null)
    .required()
    .description(
      'The value of `before` for the next page; null on the last page. Every other page has exactly `limit` events.',
    ),
})
