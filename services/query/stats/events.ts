import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { encodeEventCursor } from '@sluice/api/event-cursor'
import { operations } from '@sluice/api/operations'
import { listEvents } from '@sluice/event-store/events/list-events'
import type { Route } from '@sluice/http/route'
import { type AnalysisReader, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { rangeOf } from './read-stats-request.ts'

const tooLarge = {
  bytes: { field: 'limit', reason: 'is too high: the answer would be too large, so use a lower limit' },
  resources: {
    field: 'start_date',
    reason: 'asks for more than one answer may read: ask for a shorter range or a filter that more events meet',
  },
}

/**
 * `GET /api/v1/events` (docs/http-interface.md#events): a page of a site's events. Throws 400, 404 `Site not found`,
 * ClickHouseError.
 */
export function eventsRoute({ eventReader, sites }: { eventReader: AnalysisReader; sites: ReadableSites }): Route {
  return handleAnalysis(operations.events, eventReader, async ({ query, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, environment = credential.environment, filter: conditions = [], limit, before } = query
    const range = rangeOf(query, receivedAt)
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)

    const spec = { siteId, environment, ...range, conditions, before, limit }
    const { events, next } = await runAnalysis(
      eventReader,
      { credential, signal },
      (runner) => listEvents(spec, runner),
      { kind: 'events', tooLarge, conditions: { filter: conditions } },
    )
    return { events, next_before: next === undefined ? null : encodeEventCursor(next) }
  })
}
