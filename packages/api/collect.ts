import joi from 'joi'
import type { BatchResult, EventError } from '@sluice/contracts/batch-result'
import { eventLimits } from '@sluice/contracts/event-limits'
import { eventSchema } from '@sluice/events/event-schema'

// Bodies of collection in the OpenAPI document. The gateway does not validate with these schemas: packages/events reads
// each event, keeps its unknown fields as properties, and reports the errors of a batch event by event.

export const eventBody = eventSchema.unknown().id('Event')

export const batchBody = joi.object({
  events: joi.array().items(eventBody).min(1).max(eventLimits.batchEventsMax).required(),
})

/** `data` of every answer to a batch. */
export const batchResult = joi
  .object<BatchResult>({
    accepted: joi.number().integer().required().description('Number of events that are durable now.'),
    rejected: joi
      .number()
      .integer()
      .required()
      .description(
        'Number of events that were not accepted; `errors` says why. Most of them would be refused again. Those of a new site (429, 404) may be accepted later.',
      ),
    errors: joi
      .array()
      .items(
        joi.object<EventError>({
          index: joi.number().integer().required().description('Position of the event in the batch, counted from 0.'),
          event_id: joi.string(),
          error: joi.string().required(),
        }),
      )
      .max(eventLimits.listedErrorsMax)
      .required()
      .description('The errors of the first rejected events.'),
  })
  .id('BatchResult')
