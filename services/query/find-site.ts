import type { ClickHouse } from '@sluice/clickhouse/client'
import type { SiteRecord, SiteStore } from '@sluice/postgres/sites'

export interface SiteLookup {
  /**
   * The record of a registered site and, unless sites are registered by hand alone, of one whose events are stored.
   * Throws SluiceError 503 while it can't be told.
   */
  find(siteId: string): Promise<SiteRecord | undefined>
}

/**
 * Sites by Postgres, then by their events: a gateway that accepts a new site's events while Postgres is away can't
 * register it, so this does it when somebody asks for the site. Without `autoRegister` no gateway does, nor does this.
 */
export function siteLookup(
  sites: Pick<SiteStore, 'find' | 'register'>,
  clickHouse: Pick<ClickHouse, 'query'>,
  { autoRegister }: { autoRegister: boolean },
): SiteLookup {
  async function hasEvents(siteId: string): Promise<boolean> {
    const { rows } = await clickHouse.query('SELECT 1 FROM events WHERE site_id = {site_id:String} LIMIT 1', {
      site_id: siteId,
    })
    return rows.length > 0
  }

  return {
    find: async (siteId) => {
      const found = await sites.find(siteId)
      if (found || !autoRegister || !(await hasEvents(siteId))) return found
      await sites.register([siteId])
      return sites.find(siteId)
    },
  }
}
