import type { SiteLookup, SiteRecord, SiteRequest, SiteStore } from '@sluice/access/sites'
import { hasEvents } from '@sluice/event-store/has-events'
import type { ErasureStore } from '@sluice/postgres/erasures'
import { rateLimited } from '@sluice/runtime/errors'
import { type AnalysisReader, runAnalysis } from '../run-analysis.ts'

/**
 * Finds sites in Postgres, then by their events: a gateway that accepts events of a new site while Postgres is
 * unavailable can't register the site, so the look-up registers it when it is requested. Without `autoRegister` neither
 * registers sites.
 */
export function siteLookup(
  sites: Pick<SiteStore, 'find' | 'register' | 'registerFor'> & Pick<ErasureStore, 'siteDeletedAt'>,
  reader: AnalysisReader,
  { autoRegister }: { autoRegister: boolean },
): SiteLookup {
  async function find(siteId: string, request: SiteRequest): Promise<SiteRecord | undefined> {
    const found = await sites.find(siteId)
    if (found || !autoRegister) return found
    // The events of a deleted site may still be stored. Only later events register the site again.
    const deletedAt = await sites.siteDeletedAt(siteId)
    const isKnown = await runAnalysis(reader, request, (runner) => hasEvents(siteId, runner, deletedAt), {
      tooLarge: 'unavailable',
    })
    if (!isKnown) return undefined
    await sites.register([siteId])
    return sites.find(siteId)
  }

  return {
    find,
    findOrRegister: async (siteId, request) => {
      const { keyId, siteIds } = request.credential
      const found = await find(siteId, request)
      if (found || !autoRegister || siteIds !== null) return found
      const { refused, retryAfterSeconds } = await sites.registerFor(keyId, [siteId])
      if (refused.length > 0) throw rateLimited(retryAfterSeconds)
      return sites.find(siteId)
    },
  }
}
