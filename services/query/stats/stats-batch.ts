import { operations } from '@sluice/api/operations'
import { batchQuery } from '@sluice/api/stats-batch'
import type { BatchEntry } from '@sluice/contracts/stats-batch'
import { handle } from '@sluice/http/handle'
import type { ApiRequest, Route } from '@sluice/http/route'
import { AppError, internalMessage } from '@sluice/runtime/errors'
import { validate } from '@sluice/runtime/validate'
import { parametersOf } from './json-parameters.ts'
import { readStatsRequest } from './read-stats-request.ts'
import { type StatsDeps, statsResult } from './stats.ts'

type BatchRequest = Pick<ApiRequest, 'receivedAt' | 'credential' | 'signal' | 'log'>

/** Queries of one batch that run at a time. */
const concurrencyMax = 4

/**
 * `POST /api/v1/stats/batch` (docs/http-interface.md#stats-batch): 200 with `results`, in the order of the queries. Each
 * of them counts against the rate limit of queries; one that fails does not affect the others.
 */
export function statsBatchRoute(deps: StatsDeps): Route {
  async function runQuery(query: unknown, request: BatchRequest): Promise<BatchEntry> {
    try {
      const { receivedAt, credential } = request
      const parameters = validate(batchQuery, parametersOf(query))
      const statsRequest = readStatsRequest(parameters, { now: receivedAt, environment: credential.environment })
      return { success: true, data: await statsResult(statsRequest, request, deps) }
    } catch (error) {
      if (request.signal.aborted) throw error
      const isUnexpected = !(error instanceof AppError)
      if (isUnexpected || error.code === 'unavailable' || error.code === 'internal')
        request.log({ error: internalMessage(error) })
      return { success: false, error: isUnexpected ? 'Internal server error' : error.message }
    }
  }

  return handle(operations.statsBatch, async (request) => {
    const { queries } = request.body
    await request.consume(queries.length)
    const results: BatchEntry[] = []
    for (let first = 0; first < queries.length; first += concurrencyMax) {
      const concurrent = queries.slice(first, first + concurrencyMax)
      results.push(...(await Promise.all(concurrent.map((query) => runQuery(query, request)))))
    }
    request.log({ queries: queries.length, failed: results.filter(({ success }) => !success).length })
    return { results }
  })
}
