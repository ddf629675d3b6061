import type { ClickHouse } from '@sluice/clickhouse/client'
import { rateLimited } from '@sluice/contracts/errors'
import type { Credential } from '@sluice/http/route'
import type { SiteRecord, SiteStore } from '@sluice/postgres/sites'

export interface SiteLookup {
  /**
   * The record of a registered site and, unless sites are registered by hand alone, of one whose events are stored.
   * Throws SluiceError 503 while it can't be told.
   */
  find(siteId: string): Promise<SiteRecord | undefined>
  /**
   * The same for what is created: a site that nobody knows is registered in the name of a key that is not bound to sites,
   * unless sites are registered by hand alone. Throws 429 beyond the key's new sites of a day.
   */
  findOrRegister(siteId: string, key: Pick<Credential, 'keyId' | 'siteIds'>): Promise<SiteRecord | undefined>
}

/**
 * Sites by Postgres, then by their events: a gateway that accepts a new site's events while Postgres is away can't
 * register it, so this does it when somebody asks for the site. Without `autoRegister` no gateway does, nor does this.
 */
export function siteLookup(
  sites: Pick<SiteStore, 'find' | 'register' | 'registerFor'>,
  clickHouse: Pick<ClickHouse, 'query'>,
  { autoRegister }: { autoRegister: boolean },
): SiteLookup {
  async function hasEvents(siteId: string): Promise<boolean> {
    const { rows } = await clickHouse.query('SELECT 1 FROM events WHERE site_id = {site_id:String} LIMIT 1', {
      site_id: siteId,
    })
    return rows.length > 0
  }

  async function find(siteId: string): Promise<SiteRecord | undefined> {
    const found = await sites.find(siteId)
    if (found || !autoRegister || !(await hasEvents(siteId))) return found
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
