import joi from 'joi'
import { observedPropertiesLimits, type ObservedPropertiesResult } from '@sluice/contracts/observed-properties'

const count = joi.number().integer().required()

/** `data` of GET /api/v1/properties: the properties that conditions may name, with their frequent values. */
export const observedPropertiesResult = joi.object<ObservedPropertiesResult>({
  properties: joi
    .array()
    .items(
      joi.object({
        name: joi.string().required().description('As conditions take it: `country`, `properties.plan`.'),
        count: count.description('Events that have it.'),
        values: joi
          .array()
          .items(
            joi.object({ value: joi.string().required(), count: count.description('Events that have this value.') }),
          )
          .max(observedPropertiesLimits.valuesMax)
          .required()
          .description('The most frequent first.'),
      }),
    )
    .max(observedPropertiesLimits.namesMax)
    .required()
    .description(
      `Of the latest ${observedPropertiesLimits.eventsMax.toLocaleString('en')} events of the last ${observedPropertiesLimits.days} days, the most frequent first.`,
    ),
})
