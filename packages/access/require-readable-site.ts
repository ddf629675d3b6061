import { allowsSite } from '@sluice/contracts/scopes'
import { requireFound } from '@sluice/runtime/errors'
import type { SiteDefaults, SiteRequest } from './sites.ts'

/** The part of SiteLookup that reads of a site need; `Site` is what they use of its record. */
export interface ReadableSites<Site = { settings: SiteDefaults }> {
  /** Returns the record of a known site, undefined for another. */
  find(siteId: string, request: SiteRequest): Promise<Site | undefined>
}

/**
 * Returns the record of a site that the request may read. Throws AppError `not_found` for any other site, and what the
 * look-up throws.
 */
export async function requireReadableSite<Site>(
  sites: ReadableSites<Site>,
  request: SiteRequest,
  siteId: string,
): Promise<Site> {
  const isAllowed = allowsSite(request.credential.siteIds, siteId)
  return requireFound(isAllowed ? await sites.find(siteId, request) : undefined, 'Site')
}
