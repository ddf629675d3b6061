import { notFound } from '@sluice/contracts/errors'
import { allowsSite } from '@sluice/contracts/scopes'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { Questions } from '../ask.ts'
import { findEventTimes } from '../event-times.ts'
import type { SiteLookup } from '../find-site.ts'
import { toSiteResource } from '../site-resource.ts'

/** GET /api/v1/sites/:site_id: a registered site, or one that is known by its events. */
export function getSiteHandler({ sites, clickHouse }: { sites: Pick<SiteLookup, 'find'>; clickHouse: Questions }) {
  return async ({ params, credential, signal, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId = '' } = params
    log({ site_id: siteId })
    const record = allowsSite(credential.siteIds, siteId) ? await sites.find(siteId) : undefined
    if (!record) throw notFound('Site')
    return {
      status: 200,
      data: toSiteResource(record, await findEventTimes([siteId], clickHouse, { credential, signal })),
    }
  }
}
