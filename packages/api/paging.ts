import joi from 'joi'
import { type ListOf, type Page, pageDefaults } from '@sluice/contracts/paging'
import { parameterMessages } from './parameters.ts'

/** Parameters of every list. They arrive as text: a schema that holds them needs `.prefs({ convert: true })`. */
export const pageParameters = {
  limit: pageNumber(1, pageDefaults.limitMax).default(pageDefaults.limit).description('Number of entries to list.'),
  offset: pageNumber(0, Number.MAX_SAFE_INTEGER).default(0).description('Number of entries to skip.'),
}

function pageNumber(min: number, max: number): joi.NumberSchema {
  return joi
    .number()
    .integer()
    .min(min)
    .max(max)
    .messages({ 'number.unsafe': `must be from ${min} to ${max}` })
    .error((errors) => {
      // A parameter that is given twice comes as a list, which joi calls no number.
      for (const error of errors) if (Array.isArray(error.value)) error.message = parameterMessages['string.base']
      return errors
    })
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
