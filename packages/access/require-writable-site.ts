import { allowsSite } from '@sluice/contracts/scopes'
import { notFound, siteNotAllowed } from '@sluice/runtime/errors'
import type { SiteLookup, SiteRequest } from './sites.ts'

/**
 * Resolves when the request may create a record for a site; an unknown site is registered. Throws AppError `forbidden`
 * for a site that its credential is not bound to, `not_found` (`Site not found`), and `rate_limited` when its key has
 * reached its limit of new sites a day.
 */
export async function requireWritableSite(
  sites: Pick<SiteLookup, 'findOrRegister'>,
  request: SiteRequest,
  siteId: string,
): Promise<void> {
  if (!allowsSite(request.credential.siteIds, siteId)) throw siteNotAllowed()
  if (!(await sites.findOrRegister(siteId, request))) throw notFound('Site')
}
