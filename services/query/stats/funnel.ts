import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { funnelLimits } from '@sluice/contracts/funnel'
import { analyseFunnel } from '@sluice/event-store/funnel/analyse-funnel'
import type { Route } from '@sluice/http/route'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { rangeOf } from './read-stats-request.ts'

export interface FunnelDeps {
  eventReader: AnalysisReader
  sites: ReadableSites
  readCompleteUntil: ReadCompleteUntil
}

/** `POST /api/v1/funnel` (docs/http-interface.md#funnel). Throws 400, 404 `Site not found`, ClickHouseError. */
export function funnelRoute({ eventReader, sites, readCompleteUntil }: FunnelDeps): Route {
  return handleAnalysis(operations.funnel, eventReader, async ({ body, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, steps, environment = credential.environment, of = 'user' } = body
    const { window: windowMs = funnelLimits.windowDefaultMs } = body
    const range = rangeOf(body, receivedAt)
    log({ site_id: siteId, steps: steps.length })
    await requireReadableSite(sites, { credential, signal }, siteId)

    const completeUntilMs = readCompleteUntil(range.start)
    const spec = { siteId, environment, ...range, steps, windowMs, of }
    const numbers = await runAnalysis(eventReader, { credential, signal }, (runner) => analyseFunnel(spec, runner), {
      kind: 'funnel',
      conditions: Object.fromEntries(
        steps.map(({ conditions = [] }, index) => [`steps.${index}.conditions`, conditions]),
      ),
    })
    return {
      site_id: siteId,
      start_date: range.start,
      end_date: range.end,
      steps: numbers.map(({ users, rateFromFirst, rateFromPrevious }, index) => ({
        event_type: steps[index]?.event_type ?? '',
        users,
        rate_from_first: rateFromFirst,
        rate_from_previous: rateFromPrevious,
      })),
      complete_until: completeUntilMs,
    }
  })
}
