import joi from 'joi'
import { eventLimits } from '@sluice/contracts/event-limits'

// Bodies of Segment's clients in the OpenAPI document. The gateway does not validate with these schemas:
// services/gateway/segment/map-message.ts reads each message and keeps its unknown fields as properties.

// Integers as ids and Unix ms as times are only described: for a choice of two types, generators of clients make a class
// of its own, e.g. `SegmentMessageUserId`, in place of a text.
const text = joi.string().allow(null, '')
const id = text.description('An integer is stored as text.')
const object = joi.object().allow(null)

const fields = {
  event: text.example('Order Completed').description('Name of the event; required only in `track`.'),
  messageId: text
    .example('ajs-next-1795419743042-c023dfcf')
    .description('Messages with the same `messageId` and `timestamp` are stored once. An integer is stored as text.'),
  timestamp: text
    .example('2026-01-31T12:00:00.000Z')
    .description(
      'Time of the event, ISO 8601, or a number of Unix ms. Sluice does not correct it by `sentAt`. Default: the time of receipt.',
    ),
  userId: id.example('ada'),
  anonymousId: id,
  properties: object.example({ revenue: 12.5 }).description('Properties of `track`, `page` and `screen`.'),
  traits: object.description('Traits of `identify` and `group`.'),
  context: object.example({ page: { url: 'https://example.com/pricing' } }),
  writeKey: text.description('The API key, for clients that do not send it in a header.'),
}

export const messageBody = joi.object(fields).unknown().id('SegmentMessage')

const batchedMessage = joi
  .object({
    type: joi.string().valid('track', 'page', 'screen', 'identify', 'group', 'alias').required(),
    ...fields,
  })
  .unknown()
  .id('SegmentBatchedMessage')

export const batchBody = joi
  .object({
    batch: joi.array().items(batchedMessage).min(1).max(eventLimits.batchEventsMax).required(),
    context: object.description('Its members are added to each message whose own context lacks them.'),
    writeKey: fields.writeKey,
  })
  .unknown()

export const settingsBody = joi.object({
  integrations: joi
    .object({
      'Segment.io': joi
        .object({
          apiKey: joi.string().required().description('The key of the path.'),
          apiHost: joi
            .string()
            .required()
            .example('in.example.com/v1')
            .description('Where clients send their messages: the host of the request, and `/v1`.'),
        })
        .required(),
    })
    .required(),
})
