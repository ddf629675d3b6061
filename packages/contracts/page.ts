import joi from 'joi'

/** `limit` and `offset` of every list (contract section 1). */
export interface Page {
  limit: number
  offset: number
}

export const pageDefaults = { limit: 50, limitMax: 1_000 } as const

/** Parameters of every list. They arrive as text: what holds them converts. */
export const pageParameters = {
  limit: joi
    .number()
    .integer()
    .min(1)
    .max(pageDefaults.limitMax)
    .default(pageDefaults.limit)
    .description('How many to list.'),
  offset: joi
    .number()
    .integer()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .description('How many to pass over first.'),
}

export const pageQuery = joi.object<Page>(pageParameters).prefs({ convert: true })

/** `data` of a list's answer: `{<plural>: [...], total, limit, offset}`. */
export function listOf(plural: string, item: joi.Schema): joi.ObjectSchema {
  return joi.object({
    [plural]: joi.array().items(item).required(),
    total: joi.number().integer().required(),
    limit: joi.number().integer().required(),
    offset: joi.number().integer().required(),
  })
}
