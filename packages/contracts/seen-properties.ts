import joi from 'joi'

export const seenLimits = {
  /** Days that are looked at. */
  days: 30,
  /** Events that are looked at, the latest ones. */
  eventsMax: 500_000,
  namesMax: 200,
  valuesMax: 20,
} as const

const count = joi.number().integer().required()

/** `data` of GET /api/v1/properties: what conditions may name, and what they would find. */
export const seenPropertiesResult = joi.object({
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
          .max(seenLimits.valuesMax)
          .required()
          .description('The most frequent first.'),
      }),
    )
    .max(seenLimits.namesMax)
    .required()
    .description(
      `Of the latest ${seenLimits.eventsMax.toLocaleString('en')} events of the last ${seenLimits.days} days, the most frequent first.`,
    ),
})
