import { operatorText, SluiceError } from '@sluice/contracts/errors'
import { batchQuery, statsBatchBody } from '@sluice/contracts/stats-batch'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { readFor, type StatsDeps, type StatsResult, statsResult } from '../stats/handler.ts'
import { parametersOf } from './parameters-of.ts'

/** Questions of one batch that are asked at once. */
const atOnce = 4

type BatchResult = { success: true; data: StatsResult } | { success: false; error: string }

/**
 * `POST /api/v1/stats/batch` (contract section 4): 200 with `results`, in the order of the questions. Each costs a query;
 * one that fails does not keep the others from their answers.
 */
export function statsBatchHandler(deps: StatsDeps) {
  async function answerOne(query: unknown, request: ApiRequest): Promise<BatchResult> {
    try {
      const asked = readFor(request, parametersOf(query), batchQuery)
      return { success: true, data: await statsResult(asked, request, deps) }
    } catch (error) {
      if (request.signal.aborted) throw error
      const isOurs = !(error instanceof SluiceError)
      if (isOurs || error.status >= 500) request.log({ error: operatorText(error) })
      return { success: false, error: isOurs ? 'Internal server error' : error.message }
    }
  }

  return async (request: ApiRequest): Promise<Answer> => {
    const { queries } = validate(statsBatchBody, parseJson(request.body.bytes))
    await request.spend(queries.length)
    const results: BatchResult[] = []
    for (let first = 0; first < queries.length; first += atOnce) {
      const some = queries.slice(first, first + atOnce)
      results.push(...(await Promise.all(some.map((query) => answerOne(query, request)))))
    }
    request.log({ queries: queries.length, failed: results.filter(({ success }) => !success).length })
    return { status: 200, data: { results } }
  }
}
