import { notFound, siteNotAllowed } from '@sluice/contracts/errors'
import { allowsSite } from '@sluice/contracts/scopes'
import type { Credential } from '@sluice/http/route'
import type { SiteLookup } from './find-site.ts'

/**
 * Resolves when something may be created for a site in the credential's name; a site that nobody knew is registered by
 * it. Throws 403 for a site that the credential is not bound to, 404 `Site not found`, 429 when its key has registered
 * as many as it may.
 */
export async function writableSite(
  sites: Pick<SiteLookup, 'findOrRegister'>,
  credential: Pick<Credential, 'keyId' | 'siteIds'>,
  siteId: string,
): Promise<void> {
  if (!allowsSite(credential.siteIds, siteId)) throw siteNotAllowed()
  if (!(await sites.findOrRegister(siteId, credential))) throw notFound('Site')
}
