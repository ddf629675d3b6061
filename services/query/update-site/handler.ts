import { notFound } from '@sluice/contracts/errors'
import { allowsSite } from '@sluice/contracts/scopes'
import { updateSiteBody } from '@sluice/contracts/sites'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import type { SiteStore } from '@sluice/postgres/sites'
import type { Questions } from '../ask.ts'
import { findEventTimes } from '../event-times.ts'
import type { SiteLookup } from '../find-site.ts'
import { toSiteResource } from '../site-resource.ts'
import { keptSettings } from '../time-zone.ts'

/** PUT /api/v1/sites/:site_id: settings left out keep their value; gateways obey within 2 s. */
export function updateSiteHandler({
  sites,
  siteStore,
  clickHouse,
}: {
  sites: Pick<SiteLookup, 'find'>
  siteStore: Pick<SiteStore, 'update'>
  clickHouse: Questions
}) {
  return async ({ params, body, credential, signal, log }: ApiRequest): Promise<Answer> => {
    const settings = validate(updateSiteBody, parseJson(body.bytes))
    const { site_id: siteId = '' } = params
    log({ site_id: siteId })
    const found = allowsSite(credential.siteIds, siteId) ? await sites.find(siteId) : undefined
    if (!found) throw notFound('Site')
    // Asked first: a failure here must leave nothing behind.
    const times = await findEventTimes([siteId], clickHouse, { credential, signal })
    const record = Object.keys(settings).length === 0 ? found : await siteStore.update(siteId, keptSettings(settings))
    if (!record) throw notFound('Site')
    return { status: 200, data: toSiteResource(record, times) }
  }
}
