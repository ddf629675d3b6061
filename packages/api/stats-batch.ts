import joi from 'joi'
import { batchQueriesMax, type StatsBatchResult } from '@sluice/contracts/stats-batch'
import { boundedArray } from '@sluice/runtime/schemas'
import { filterOrText } from './conditions.ts'
import { statsQuery, statsResult } from './stats.ts'

const queries = boundedArray().min(1).max(batchQueriesMax).required().messages({
  'array.base': 'must be a list',
  'array.min': 'must contain at least {{#limit}} query',
  'array.max': 'must contain at most {{#limit}} queries',
})

/** The body of POST /api/v1/stats/batch. Each query is validated by itself, with `batchQuery`. */
export const statsBatchBody = joi.object<{ queries: unknown[] }>({ queries: queries.items(joi.any()) })

/** A query of a batch: the parameters of GET /api/v1/stats as JSON values. */
export const batchQuery = statsQuery
  .keys({
    filter: filterOrText.description(
      'A list of conditions `{property, operator, value}`, all of which an event must meet.',
    ),
  })
  .messages({ 'string.base': 'must be a string' })

/** The body in the OpenAPI document. */
export const statsBatchRequest = joi.object({
  queries: queries.items(batchQuery).example([
    { site_id: 'my-site', metric: 'event_count', period: '7d', group_by: 'day' },
    { site_id: 'my-site', metric: 'visitors', period: '7d' },
  ]),
})

/** `data` of the response: for each query, in their order, its result or its error. */
export const statsBatchResult = joi.object<StatsBatchResult>({
  results: joi
    .array()
    .items(
      joi.object({
        success: joi.boolean().required(),
        data: statsResult,
        status: joi.number().integer().description('The HTTP status with which this query alone would be refused.'),
        error: joi.string().description('The same error text as for the query alone.'),
      }),
    )
    .required(),
})
