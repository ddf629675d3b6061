import { allowsSite } from '@sluice/contracts/scopes'
import { notFound, siteNotAllowed } from '@sluice/runtime/errors'
import type { Credential } from './credential.ts'
import type { SiteLookup } from './sites.ts'

/**
 * Resolves when the credential may create a record for a site; an unknown site is registered. Throws 403 for a site that
 * the credential is not bound to, 404 `Site not found`, and 429 when its key has reached its limit of new sites a day.
 */
export async function writableSite(
  sites: Pick<SiteLookup, 'findOrRegister'>,
  credential: Pick<Credential, 'keyId' | 'siteIds'>,
  siteId: string,
): Promise<void> {
  if (!allowsSite(credential.siteIds, siteId)) throw siteNotAllowed()
  if (!(await sites.findOrRegister(siteId, credential))) throw notFound('Site')
}
