import { allowsSite } from '@sluice/contracts/scopes'
import { notFound } from '@sluice/runtime/errors'
import type { Credential } from './credential.ts'
import type { SiteDefaults } from './sites.ts'

/** The part of SiteLookup that reads of a site need. */
export interface ReadableSites {
  /** Returns the settings of a known site, undefined for another. */
  find(siteId: string): Promise<{ settings: SiteDefaults } | undefined>
}

/** Returns the settings of a site that the credential may read; throws 404 `Site not found` for any other site. */
export async function readableSite(
  sites: ReadableSites,
  { siteIds }: Pick<Credential, 'siteIds'>,
  siteId: string,
): Promise<SiteDefaults> {
  const site = allowsSite(siteIds, siteId) ? await sites.find(siteId) : undefined
  if (!site) throw notFound('Site')
  return site.settings
}
