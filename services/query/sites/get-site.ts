import { requireReadableSite } from '@sluice/access/require-readable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import type { Route } from '@sluice/http/route'
import { type AnalysisReader, handleAnalysis } from '../run-analysis.ts'
import { readEventTimeRanges } from './read-event-time-ranges.ts'
import { toSiteResource } from './site-resource.ts'

/**
 * GET /api/v1/sites/:site_id: a registered site, or one that is known by its events. Throws 404 for a missing or hidden
 * site.
 */
export function getSiteRoute({
  sites,
  eventReader,
}: {
  sites: Pick<SiteLookup, 'find'>
  eventReader: AnalysisReader
}): Route {
  return handleAnalysis(operations.getSite, eventReader, async (request, signal) => {
    const { params, credential, log } = request
    const { site_id: siteId } = params
    log({ site_id: siteId })
    const record = await requireReadableSite(sites, { credential, signal }, siteId)
    return toSiteResource(record, await readEventTimeRanges([siteId], eventReader, { credential, signal }))
  })
}
