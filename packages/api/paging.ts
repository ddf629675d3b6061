import joi from 'joi'
import { type ListOf, type Page, pageDefaults } from '@sluice/contracts/paging'
import { parameterMessages } from './parameters.ts'

/** Parameters of every list. They arrive as text: a schema that holds them needs `.prefs({ convert: true })`. */
export const pageParameters = {
  limit: joi
    .number()
    .integer()
    .min(1)
    .max(pageDefaults.limitMax)
    .default(pageDefaults.limit)
    .description('Number of entries to list.'),
  offset: joi
    .number()
    .integer()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .description('Number of entries to skip.'),
}

export const pageQuery = joi
  .object<Page>(pageParameters)
  .prefs({ convert: true })
  .messages({ 'object.unknown': parameterMessages['object.unknown'] })

/** Schema of the `data` of a list: `{<plural>: [...], total, limit, offset}`. */
export function listOf<Plural extends string, Item>(
  plural: Plural,
  item: joi.ObjectSchema<Item>,
): joi.ObjectSchema<ListOf<Plural, Item>> {
  return joi.object({
    [plural]: joi.array().items(item).required(),
    total: joi.number().integer().required(),
    limit: joi.number().integer().required(),
    offset: joi.number().integer().required(),
  })
}
