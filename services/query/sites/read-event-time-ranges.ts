import { type EventTimeRanges, eventTimeRanges } from '@sluice/event-store/event-time-ranges'
import type { ApiRequest } from '@sluice/http/route'
import { type AnalysisReader, runAnalysis } from '../run-analysis.ts'

const tooManyEvents = {
  field: 'limit',
  reason: 'asks for more events than one answer may read: ask for fewer sites',
}

/**
 * Reads the times of each site's first and last event. Throws 400 for several sites with too many events, because a
 * client may ask for fewer sites. Throws 503 for one site with too many, and while ClickHouse is unavailable.
 */
export function readEventTimeRanges(
  siteIds: readonly string[],
  reader: AnalysisReader,
  request: Pick<ApiRequest, 'credential' | 'signal'>,
): Promise<EventTimeRanges> {
  return runAnalysis(reader, request, (runner) => eventTimeRanges(siteIds, runner), {
    tooLarge: siteIds.length > 1 ? { resources: tooManyEvents } : 'unavailable',
  })
}
