import joi from 'joi'
import { observedPropertiesLimits, type ObservedPropertiesResult } from '@sluice/contracts/observed-properties'

const count = joi.number().integer().required()

/** `data` of GET /api/v1/properties: the properties that conditions may name, with their frequent values. */
export const observedPropertiesResult = joi.object<ObservedPropertiesResult>({
  properties: joi
    .array()
    .items(
      joi.object({
        name: joi.string().required().description('Name as in conditions: `country`, `properties.plan`.'),
        count: count.description('Number of events that have it.'),
        values: joi
          .array()
          .items(
            joi.object({
              value: joi.string().required(),
              count: count.description('Number of events that have this value.'),
            }),
          )
          .max(observedPropertiesLimits.valuesMax)
          .required()
          .description('The most frequent values, in descending order.'),
      }),
    )
    .max(observedPropertiesLimits.namesMax)
    .required()
    .description(
      `Names in the latest ${observedPropertiesLimits.eventsMax.toLocaleString('en')} events of the last ${observedPropertiesLimits.days} days, the most frequent first.`,
    ),
})
