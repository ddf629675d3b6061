import type { ClickHouse } from '@sluice/clickhouse/client'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { asker } from '../ask.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { answerStats } from './answer.ts'
import { readStatsRequest } from './parameters.ts'

/** What the operation needs of the others. */
export interface StatsDeps {
  clickHouse: Pick<ClickHouse, 'query'>
  sites: ReadableSites
  /** Until when (Unix ms) everything accepted can be read. */
  completeUntil: () => Promise<number>
}

/**
 * `GET /api/v1/stats` (contract section 4): answers 200 with a StatsAnswer.
 * Throws 400 for wrong parameters, 404 `Site not found`, ClickHouseError.
 */
export function statsHandler({ clickHouse, sites, completeUntil }: StatsDeps) {
  return async ({ query, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const asked = readStatsRequest(query, { now: receivedAt, environment: credential.environment })
    log({ site_id: asked.siteId, metric: asked.metric })
    const question = asked.toQuestion(await readableSite(sites, credential, asked.siteId))
    const answer = await answerStats(question, { ask: asker(clickHouse, signal), completeUntil })
    return { status: 200, data: { ...answer, timestamp: receivedAt } }
  }
}
