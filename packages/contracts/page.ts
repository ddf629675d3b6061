import joi from 'joi'

/** `limit` and `offset` of every list (contract section 1). */
export interface Page {
  limit: number
  offset: number
}

export const pageDefaults = { limit: 50, limitMax: 1_000 } as const

/** Query parameters arrive as text, hence the conversion. */
export const pageQuery = joi
  .object<Page>({
    limit: joi.number().integer().min(1).max(pageDefaults.limitMax).default(pageDefaults.limit),
    offset: joi.number().integer().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  })
  .prefs({ convert: true })
