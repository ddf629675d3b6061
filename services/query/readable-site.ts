import { notFound } from '@sluice/contracts/errors'
import { allowsSite } from '@sluice/contracts/scopes'
import type { Credential } from '@sluice/http/route'
import type { SiteDefaults } from './stats/parameters.ts'

/** What reads of a site need of the sites. */
export interface ReadableSites {
  /** A known site's settings. */
  find(siteId: string): Promise<{ settings: SiteDefaults } | undefined>
}

/** The settings of a site that the credential may read. Throws 404 `Site not found`, for a foreign one as for none. */
export async function readableSite(
  sites: ReadableSites,
  { siteIds }: Pick<Credential, 'siteIds'>,
  siteId: string,
): Promise<SiteDefaults> {
  const site = allowsSite(siteIds, siteId) ? await sites.find(siteId) : undefined
  if (!site) throw notFound('Site')
  return site.settings
}
