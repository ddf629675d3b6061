import { allowsSite } from '@sluice/contracts/scopes'
import { notFound, siteNotAllowed } from '@sluice/runtime/errors'
import type { SiteLookup, SiteRequest } from './sites.ts'

/**
 * Resolves when the request may create a record for a site; an unknown site is registered. Throws 403 for a site that
 * its credential is not bound to, 404 `Site not found`, and 429 when its key has reached its limit of new sites a day.
 */
export async function requireWritableSite(
  sites: Pick<SiteLookup, 'findOrRegister'>,
  request: SiteRequest,
  siteId: string,
): Promise<void> {
  if (!allowsSite(request.credential.siteIds, siteId)) throw siteNotAllowed()
  if (!(await sites.findOrRegister(siteId, request))) throw notFound('Site')
}
