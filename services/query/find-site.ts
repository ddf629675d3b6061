import type { ClickHouse } from '@sluice/clickhouse/client'
import type { SiteStore } from '@sluice/postgres/sites'
import { LRUCache } from 'lru-cache'

export interface SiteLookup {
  /** True for a registered site, and for one whose events are stored. Throws SluiceError 503 while it can't be told. */
  isKnown(siteId: string): Promise<boolean>
}

const cachedSitesMax = 100_000
/** Deleted sites must not be known for ever. */
const knownTtlMs = 1_000

/**
 * Sites by Postgres, then by their events: a gateway that accepts a new site's events while Postgres is away can't
 * register it, so this does it when somebody asks for the site.
 */
export function siteLookup(
  sites: Pick<SiteStore, 'isKnown' | 'register'>,
  clickHouse: Pick<ClickHouse, 'query'>,
): SiteLookup {
  const known = new LRUCache<string, true>({ max: cachedSitesMax, ttl: knownTtlMs })

  async function hasEvents(siteId: string): Promise<boolean> {
    const { rows } = await clickHouse.query('SELECT 1 FROM events WHERE site_id = {site_id:String} LIMIT 1', {
      site_id: siteId,
    })
    return rows.length > 0
  }

  return {
    isKnown: async (siteId) => {
      if (known.has(siteId)) return true
      if (!(await sites.isKnown(siteId))) {
        if (!(await hasEvents(siteId))) return false
        await sites.register([siteId])
      }
      known.set(siteId, true)
      return true
    },
  }
}
