import { requireReadableSite } from '@sluice/access/require-readable-site'
import type { SiteLookup, SiteStore } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { requireFound } from '@sluice/runtime/errors'
import { requireUnchangedSite } from '../require-unchanged-site.ts'
import type { AnalysisReader } from '../run-analysis.ts'
import { readEventTimeRanges } from './read-event-time-ranges.ts'
import { toSiteResource } from './site-resource.ts'
import { storedSettings } from './stored-settings.ts'

/**
 * PUT /api/v1/sites/:site_id: settings left out keep their value; gateways apply the change within 2 s. Throws 400 for
 * another `site_id` in the body, and 404 for a missing or hidden site.
 */
export function updateSiteRoute({
  sites,
  siteStore,
  eventReader,
}: {
  sites: Pick<SiteLookup, 'find'>
  siteStore: Pick<SiteStore, 'update'>
  eventReader: AnalysisReader
}): Route {
  return handle(operations.updateSite, async ({ params: { site_id: siteId }, body, credential, signal, log }) => {
    const { site_id: repeatedId, ...settings } = body
    log({ site_id: siteId })
    requireUnchangedSite(repeatedId, siteId)
    const found = await requireReadableSite(sites, { credential, signal }, siteId)
    // Read first, so that a failure leaves nothing behind.
    const times = await readEventTimeRanges([siteId], eventReader, { credential, signal })
    const record = Object.keys(settings).length === 0 ? found : await siteStore.update(siteId, storedSettings(settings))
    return toSiteResource(requireFound(record, 'Site'), times)
  })
}
