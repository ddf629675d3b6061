import joi from 'joi'
import type { StoredEvent } from '@sluice/contracts/stored-event'

const propertyValue = joi.alternatives(joi.string().allow(''), joi.number().unsafe(), joi.boolean(), joi.array())

/** An event as it was stored; absent fields are left out. */
export const storedEvent = joi
  .object<StoredEvent>({
    event_id: joi.string().required(),
    site_id: joi.string().required(),
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
      .description('The flattened properties. Values have the types with which they were sent.'),
  })
  .id('StoredEvent')
