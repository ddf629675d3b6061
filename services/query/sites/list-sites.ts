import type { SiteStore } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { AnalysisReader } from '../run-analysis.ts'
import { readEventTimeRanges } from './read-event-time-ranges.ts'
import { toSiteResource } from './site-resource.ts'

/** GET /api/v1/sites: registered sites in the order of their ids; a bound key sees only its own. */
export function listSitesRoute({
  siteStore,
  eventReader,
}: {
  siteStore: Pick<SiteStore, 'list'>
  eventReader: AnalysisReader
}): Route {
  return handle(operations.listSites, async ({ query: page, credential, signal }) => {
    const { sites, total } = await siteStore.list(page, credential.siteIds)
    const times = await readEventTimeRanges(
      sites.map(({ siteId }) => siteId),
      eventReader,
      { credential, signal },
    )
    return { sites: sites.map((site) => toSiteResource(site, times)), total, ...page }
  })
}
