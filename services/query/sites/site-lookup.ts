import type { SiteLookup, SiteRecord, SiteStore } from '@sluice/access/sites'
import { hasEvents } from '@sluice/event-store/has-events'
import type { QueryRunner } from '@sluice/event-store/query-runner'
import { rateLimited } from '@sluice/runtime/errors'

/**
 * Finds sites in Postgres, then by their events: a gateway that accepts events of a new site while Postgres is away can't
 * register the site, so the look-up registers it when it is requested. Without `autoRegister` neither registers sites.
 */
export function siteLookup(
  sites: Pick<SiteStore, 'find' | 'register' | 'registerFor'>,
  runner: QueryRunner,
  { autoRegister }: { autoRegister: boolean },
): SiteLookup {
  async function find(siteId: string): Promise<SiteRecord | undefined> {
    const found = await sites.find(siteId)
    if (found || !autoRegister || !(await hasEvents(siteId, runner))) return found
    await sites.register([siteId])
    return sites.find(siteId)
  }

  return {
    find,
    findOrRegister: async (siteId, { keyId, siteIds }) => {
      const found = await find(siteId)
      if (found || !autoRegister || siteIds !== null) return found
      const { refused, retryAfterSeconds } = await sites.registerFor(keyId, [siteId])
      if (refused.length > 0) throw rateLimited(retryAfterSeconds)
      return sites.find(siteId)
    },
  }
}
