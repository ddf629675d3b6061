import type { statsQuery } from '@sluice/contracts/stats'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { asker, type Questions } from '../ask.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { answerStats, type StatsAnswer } from './answer.ts'
import { type GivenParameters, readStatsRequest, type StatsRequest } from './parameters.ts'

/** What the operation needs of the others. */
export interface StatsDeps {
  clickHouse: Questions
  sites: ReadableSites
  /** Until when (Unix ms) everything accepted can be read. */
  completeUntil: () => number
}

/** `data` of a stats answer. */
export interface StatsResult extends StatsAnswer {
  timestamp: number
}

/**
 * `GET /api/v1/stats` (contract section 4): answers 200 with a StatsResult.
 * Throws 400 for wrong parameters, 404 `Site not found`, ClickHouseError.
 */
export function statsHandler(deps: StatsDeps) {
  return async (request: ApiRequest): Promise<Answer> => {
    const asked = readFor(request, request.query)
    request.log({ site_id: asked.siteId, metric: asked.metric })
    return { status: 200, data: await statsResult(asked, request, deps) }
  }
}

/** Reads parameters in the name of who asks. Throws 400. */
export function readFor(
  { receivedAt, credential: { environment } }: Pick<ApiRequest, 'receivedAt' | 'credential'>,
  given: GivenParameters,
  schema?: typeof statsQuery,
): StatsRequest {
  return readStatsRequest(given, { now: receivedAt, environment, ...(schema && { schema }) })
}

/** Answers a request in the name of who asks. Throws 400 for too many buckets, 404 `Site not found`, ClickHouseError. */
export async function statsResult(
  asked: StatsRequest,
  request: Pick<ApiRequest, 'receivedAt' | 'credential' | 'signal'>,
  { clickHouse, sites, completeUntil }: StatsDeps,
): Promise<StatsResult> {
  const question = asked.toQuestion(await readableSite(sites, request.credential, asked.siteId))
  const answer = await answerStats(question, { ask: asker(clickHouse, request), completeUntil })
  return { ...answer, timestamp: request.receivedAt }
}
