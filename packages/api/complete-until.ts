import joi from 'joi'

/** The field of every answer that counts events (docs/http-interface.md#complete-until). */
export const completeUntilSchema = joi
  .number()
  .integer()
  .required()
  .description(
    'Unix ms. All accepted events that were received before this time are counted; later ones may be counted. 0: the time is not known yet.',
  )
