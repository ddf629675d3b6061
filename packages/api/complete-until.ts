import joi from 'joi'

/** The field of every answer that counts events (docs/http-interface.md#complete-until). */
export const completeUntil = joi
  .number()
  .integer()
  .required()
  .description('Whatever was received until then and accepted is counted; what came later may be. 0: not known yet.')
