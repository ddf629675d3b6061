import joi from 'joi'
import { eventLimits } from './event-fields.ts'
import { sentEvent } from './event.ts'

// What the OpenAPI document says of the bodies of collection. They are read by rules of their own, which take an
// event's unknown fields as properties, and a batch's events one by one.

export const eventBody = sentEvent.unknown().id('Event')

export const batchBody = joi.object({
  events: joi.array().items(eventBody).min(1).max(eventLimits.batchEventsMax).required(),
})

/** `data` of a batch's answer, 202 and 400 alike. */
export const batchResult = joi
  .object({
    accepted: joi.number().integer().required().description('Events that are durable now.'),
    rejected: joi
      .number()
      .integer()
      .required()
      .description('Events that are not taken; sent again as they are, they never will be.'),
    errors: joi
      .array()
      .items(
        joi.object({
          index: joi.number().integer().required().description('Place in the batch, from 0.'),
          event_id: joi.string(),
          error: joi.string().required(),
        }),
      )
      .max(eventLimits.listedErrorsMax)
      .required()
      .description('The first of the rejected.'),
  })
  .id('BatchResult')
