import { allowsSite } from '@sluice/contracts/scopes'
import { notFound } from '@sluice/runtime/errors'
import type { SiteDefaults, SiteRequest } from './sites.ts'

/** The part of SiteLookup that reads of a site need. */
export interface ReadableSites {
  /** Returns the settings of a known site, undefined for another. */
  find(siteId: string, request: SiteRequest): Promise<{ settings: SiteDefaults } | undefined>
}

/** Returns the settings of a site that the request may read; throws 404 `Site not found` for any other site. */
export async function readableSite(sites: ReadableSites, request: SiteRequest, siteId: string): Promise<SiteDefaults> {
  const site = allowsSite(request.credential.siteIds, siteId) ? await sites.find(siteId, request) : undefined
  if (!site) throw notFound('Site')
  return site.settings
}
