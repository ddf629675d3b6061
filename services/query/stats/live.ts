import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { liveLimits } from '@sluice/contracts/live'
import { hourMs } from '@sluice/contracts/time-units'
import { readLive } from '@sluice/event-store/live/read-live'
import type { Route } from '@sluice/http/route'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, handleAnalysis, runAnalysis, siteTooLarge } from '../run-analysis.ts'

export interface LiveDeps {
  eventReader: AnalysisReader
  sites: ReadableSites
  readCompleteUntil: ReadCompleteUntil
}

/**
 * `GET /api/v1/live` (docs/http-interface.md#live): the latest minutes and events. Throws 400, 404 `Site not found`,
 * ClickHouseError.
 */
export function liveRoute({ eventReader, sites, readCompleteUntil }: LiveDeps): Route {
  return handleAnalysis(operations.live, eventReader, async ({ query, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, environment = credential.environment, filter: conditions = [] } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)

    const completeUntilMs = readCompleteUntil(receivedAt - liveLimits.lastEventsHours * hourMs)
    const spec = { siteId, environment, now: receivedAt, conditions }
    const live = await runAnalysis(eventReader, { credential, signal }, (runner) => readLive(spec, runner), {
      kind: 'live',
      tooLarge: { resources: siteTooLarge },
      conditions: { filter: conditions },
    })
    return {
      visitors_5m: live.visitors,
      events_5m: live.events,
      per_minute: live.eventsPerMinute,
      last_events: live.lastEvents,
      complete_until: completeUntilMs,
    }
  })
}
